#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When somebody truncates the file under the server, a read of the missing part fails, with a single
# line in the log however often it is tried, and is never answered with made-up zeroes. The rest can
# still be read.
. "$(dirname "$0")/../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

reports() # DIRECT-IO
{
	head -c 8M /dev/zero | tr '\0' '\252' >"$image"
	start_server -r -- "$image" engine="$engine" direct-io="$1"
	"$python" - "$uri" "$image" <<'EOF' >"$dir/client.log" 2>&1 || fail "the client saw something else"
import os, sys, nbd
from client import connect

h = connect(sys.argv[1], unaligned=True)
os.truncate(sys.argv[2], 3 << 20)
for offset, length in [(4 << 20, 4096), (4 << 20, 1 << 20), (2 << 20, 2 << 20), ((3 << 20) - 100, 200)] * 25:
    try:
        h.pread(length, offset)
        sys.exit(f"{length} bytes at {offset} could be read, though the file ends at {3 << 20}")
    except nbd.Error as error:
        assert error.errno == "EIO", error
assert h.pread(3 << 20, 0) == b"\xaa" * (3 << 20)
h.shutdown()
EOF
	stop_server
	expect_log 'error: .*disk\.img: read of 4096 bytes at offset 4194304 failed: '
	[ "$(grep -c 'failed: ' "$log")" -lt 50 ] || fail "100 failed requests made $(grep -c failed "$log") lines"
}

each_target reports on
each_target reports off
