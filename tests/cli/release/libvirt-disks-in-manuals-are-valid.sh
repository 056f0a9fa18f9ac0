#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each disk of libvirt in the manuals is well-formed XML with what such a disk needs. Where the
# schema of libvirt is installed (Debian's libvirt-clients), the disk is valid by it, too.
. "$(dirname "$0")/../../lib/functions.sh"

cd "$dir"
"$python" - "$top_srcdir/man/nbdloop-qemu.pod" "$top_srcdir/man/nbdloop-tutorial.pod" <<'EOP' || fail "a disk is wrong"
import re
import sys
import xml.etree.ElementTree as ElementTree

MACHINE = """<domain type='qemu'><name>vm1</name><memory>1048576</memory><os><type>hvm</type></os>
<devices>{}</devices></domain>
"""
count = 0
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as manual:
        text = manual.read()
    for block in re.findall(r"^\t<disk .*?^\t</disk>$", text, re.M | re.S):
        disk = ElementTree.fromstring(block)
        source = disk.find("source")
        assert disk.find("driver").get("type") == "raw" and disk.find("target").get("bus") == "virtio", block
        if disk.get("type") == "network":
            host = source.find("host")
            assert source.get("protocol") == "nbd" and source.get("name"), block
            assert host.get("socket", "").startswith("/") if host.get("transport") == "unix" else host.get("name"), block
        # libvirt 9.0 does not know this one.
        for reconnect in source.findall("reconnect"):
            assert int(reconnect.get("delay")) > 0, block
            source.remove(reconnect)
        count += 1
        with open(f"{count}.xml", "w", encoding="utf-8") as machine:
            machine.write(MACHINE.format(ElementTree.tostring(disk, encoding="unicode")))
assert count == 5, count
EOP

if command -v virt-xml-validate >/dev/null; then
	for machine in [0-9].xml; do
		virt-xml-validate "$machine" domain >"$dir/validate.log" 2>&1 || fail "libvirt refuses $machine"
	done
fi
