#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server merges adjacent writes that arrive together into one operation, and likewise adjacent
# reads; but it never merges a write with FUA into one without, whose data would not be on the disk
# when the reply is sent, nor into a read or a request elsewhere.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img
dd if=/dev/urandom of="$image" bs=1M count=1 status=none
# With this engine each operation is a system call of its own, which shows its offset and whether it
# is synchronous.
start_nbdloopd --threads=1 --engine=threads "$image"
# Each thread has a trace file of its own: no call is split by another thread's.
spawn strace strace -ff -s 0 -p "$pid" -o "$dir/calls" -e trace=pread64,pwrite64,pwritev2
wait_until "strace looks at the server" grep -q attached "$dir/strace.log"
"$python" "$own_python" "$sock" "$image" "$dir/calls" >"$dir/client.log" 2>&1 || fail "merged wrongly"
end_process strace INT
stop_server
"$python" - "$image" <<'EOF2' || fail "the image does not hold what was written"
import sys
with open(sys.argv[1], "rb") as f:
    blocks = f.read()
wanted = {0: 1, 1: 2, 2: 3, 8: 1, 9: 2, 10: 3, 11: 4, 16: 1, 17: 2, 18: 3, 24: 1, 25: 2, 32: 1, 40: 1, 42: 2, 41: 3, 48: 2}
assert all(blocks[4096 * n : 4096 * (n + 1)] == bytes([v]) * 4096 for n, v in wanted.items())
EOF2
