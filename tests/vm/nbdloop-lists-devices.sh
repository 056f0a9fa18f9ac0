#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop list shows of a device what losetup shows of a loop device with the same image and
# options, in the same JSON, and also lists devices that nbd-client has attached; nbdloop status
# measures a device's activity.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
truncate -s 64M "$image"
sfdisk -q "$image" <<<$'label: dos\n1M,16M\n32M,'
modprobe loop
modprobe nbd

# Both are attached with the same options; compare their columns, except the name and the columns
# that losetup pads with blanks.
compare() # [OPTION...]
{
	local loop columns=SIZELIMIT,OFFSET,RO,BACK-FILE,DIO,LOG-SEC,BACK-INO,BACK-MAJ:MIN,PARTSCAN
	loop=$(losetup --find --show "$@" "$image") || fail "losetup $* fails"
	losetup --json -O $columns "$loop" -l >"$dir/losetup.json"
	blockdev --getsize64 "$loop" >"$dir/size"
	losetup -d "$loop"
	nbdloop_attach "$@" "$image"
	nbdloop list --json -O $columns,SIZE "$device" >"$dir/nbdloop.json" || fail "nbdloop list fails"
	expect_equal "size with $*" "$(cat "$dir/size")" "$(blockdev --getsize64 "$device")"
	nbdloop_detach "$device"
	"$python" - "$dir" <<'EOF2' >"$dir/check.log" 2>&1 || fail "nbdloop and losetup don't say the same with $*"
import json, sys
(theirs,) = json.load(open(f"{sys.argv[1]}/losetup.json"))["loopdevices"]
(ours,) = json.load(open(f"{sys.argv[1]}/nbdloop.json"))["nbddevices"]
assert ours.pop("size") == int(open(f"{sys.argv[1]}/size").read()), ours
theirs["back-maj:min"] = theirs["back-maj:min"].replace(" ", "")
# The kernel looks for partitions on each nbd device.
theirs["partscan"] = True
assert ours == theirs and [type(v) for v in ours.values()] == [type(theirs[k]) for k in ours], (ours, theirs)
EOF2
}

compare --direct-io=off
compare --direct-io=on
compare --direct-io=on --read-only --offset 1M --sizelimit 8M
compare --direct-io=off --sector-size 4096

# One of nbdloop's devices beside one of nbd-client's.
nbdloop_attach "$image"
name=${device#/dev/}
truncate -s 32M "$dir/other.img"
start_server -r -- "$dir/other.img"
attach /dev/nbd7 -b 4096
nbdloop list --json --output-all >"$dir/list.json" || fail "nbdloop list fails"
"$python" - "$dir/list.json" "$device" "$image" <<'EOF2' >"$dir/check.log" 2>&1 || fail "wrong list"
import json, os, sys
found = json.load(open(sys.argv[1]))["nbddevices"]
assert [d["name"] for d in found] == [sys.argv[2], "/dev/nbd7"], found
ours, theirs = found
assert (ours["back-file"], ours["size"], ours["server"], ours["connections"]) == (sys.argv[3], 64 << 20, "nbdloopd", 1), ours
assert ours["backend"].startswith("nbdloop:/"), ours
assert open(f"/proc/{ours['server-pid']}/comm").read() == "nbdloopd\n", ours
assert open(f"/proc/{ours['pid']}/comm").read() == "nbdloop\n", ours
assert (theirs["size"], theirs["log-sec"], theirs["ro"]) == (32 << 20, 4096, True), theirs
assert theirs["pid"] > 0 and theirs["maj:min"] == f"43:{os.minor(os.stat('/dev/nbd7').st_rdev)}", theirs
assert all(theirs[key] is None for key in ("back-file", "server-pid", "offset", "backend")), theirs
EOF2
expect_equal "device of the image" "$device" "$(nbdloop list -n -O NAME -j "$image")"

# The device's activity.
read_on()
{
	while dd if="$device" of=/dev/null bs=4k count=2000 iflag=direct status=none; do :; done
}
spawn reader read_on
nbdloop status --json --watch=5 "$device" >"$dir/status.json" 2>"$dir/status.log" &
watcher=$!
wait_until "a report" test -s "$dir/status.json"
kill "$watcher"
end_process reader TERM
"$python" - "$dir/status.json" "$device" <<'EOF2' >"$dir/check.log" 2>&1 || fail "wrong figures"
import json, sys
report = json.loads(open(sys.argv[1]).readline())
read = report["requests"]["read"]
assert report["name"] == sys.argv[2] and report["seconds"] >= 5, report
assert read["iops"] > 10 and read["average-bytes"] == 4096, read
assert abs(read["bytes-per-second"] - read["iops"] * 4096) < 1, read
# Every request that the kernel counts reaches the server, except for those in flight when one of
# the two was asked.
assert abs(sum(read["histogram"]) - read["iops"] * report["seconds"]) <= read["iops"], read
assert 0 < read["p50-us"] <= read["p99-us"] <= read["max-us"] and read["average-ms"] > 0, read
assert report["busy"] > 0.1, report
EOF2

# The last dd may still have the device open.
wait_until "nobody uses $device" nbdloop detach "$device"
detach /dev/nbd7
stop_server
status=0
nbdloop status "$device" >"$dir/status.log" 2>&1 || status=$?
expect_equal "status of nbdloop status of a device that is not attached" 1 $status
expect_equal "what is still listed" '' "$(nbdloop list)"
[ ! -e "/sys/block/$name/pid" ] || fail "$device is still attached"
