#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server merges adjacent writes that arrive together into one operation, and likewise adjacent
# reads; but it never merges a write with FUA into one without, whose data would not be on the disk
# when the reply is sent, nor into a read or a request elsewhere.
. "$(dirname "$0")/../lib/functions.sh"

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
"$python" - "$lib" "$sock" "$image" "$dir/calls" <<'EOF2' >"$dir/client.log" 2>&1 || fail "merged wrongly"
import glob, re, sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

path, image, calls = sys.argv[2:]
BLOCK = 4096
expected = set()
with open(image, "rb") as f:
    held = bytearray(f.read())


def operations():
    """All that was called for: ("read" or "write", whether it is synchronous, offset, length)."""
    found = set()
    for name in glob.glob(calls + ".*"):
        with open(name) as f:
            for match in re.finditer(r"^p(read|write)(?:64|v2)\(.*, (\d+)(, RWF_DSYNC)?\) *= (\d+)$", f.read(), re.M):
                found.add((match[1], match[3] is not None, int(match[2]), int(match[4])))
    return found


def sent_together(client, requests, wanted):
    data = b""
    for cookie, (kind, block, flags) in enumerate(requests):
        data += request(SIMPLE, kind, block * BLOCK, BLOCK, flags, cookie)
        if kind == WRITE:
            payload = bytes([cookie + 1]) * BLOCK
            held[block * BLOCK : (block + 1) * BLOCK] = payload
            data += payload
    client.send(data)
    reads = [cookie for cookie, (kind, *_) in enumerate(requests) if kind == READ]
    for _ in requests:
        head = client.receive(16)
        magic, error, cookie = struct.unpack(">IIQ", head)
        assert (magic, error) == (0x67446698, 0), head
        if cookie in reads:
            block = requests[cookie][1]
            assert client.receive(BLOCK) == held[block * BLOCK : (block + 1) * BLOCK]
    expected.update((kind, fua, first * BLOCK, count * BLOCK) for kind, fua, first, count in wanted)
    end = time.monotonic() + TIMEOUT
    while operations() != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert operations() == expected, (requests, operations() ^ expected)


with Raw(path, SIMPLE) as client:
    sent_together(client, [(WRITE, 0, 0), (WRITE, 1, 0), (WRITE, 2, 0)], {("write", False, 0, 3)})
    sent_together(client, [(READ, 4, 0), (READ, 5, 0), (READ, 6, 0)], {("read", False, 4, 3)})
    # The write with FUA comes in the middle, at the end, and first.
    sent_together(client, [(WRITE, 8, 0), (WRITE, 9, FUA), (WRITE, 10, FUA), (WRITE, 11, 0)],
                  {("write", False, 8, 1), ("write", True, 9, 2), ("write", False, 11, 1)})
    sent_together(client, [(WRITE, 16, 0), (WRITE, 17, 0), (WRITE, 18, FUA)],
                  {("write", False, 16, 2), ("write", True, 18, 1)})
    sent_together(client, [(WRITE, 24, FUA), (WRITE, 25, 0)], {("write", True, 24, 1), ("write", False, 25, 1)})
    # A read after a write; writes with a block between them, in reverse order, and to the same
    # block.
    sent_together(client, [(WRITE, 32, 0), (READ, 33, 0)], {("write", False, 32, 1), ("read", False, 33, 1)})
    sent_together(client, [(WRITE, 40, 0), (WRITE, 42, 0), (WRITE, 41, 0)],
                  {("write", False, 40, 1), ("write", False, 42, 1), ("write", False, 41, 1)})
    sent_together(client, [(WRITE, 48, 0), (WRITE, 48, 0)], {("write", False, 48, 1)})
EOF2
end_process strace INT
stop_server
"$python" - "$image" <<'EOF2' || fail "the image does not hold what was written"
import sys
with open(sys.argv[1], "rb") as f:
    blocks = f.read()
wanted = {0: 1, 1: 2, 2: 3, 8: 1, 9: 2, 10: 3, 11: 4, 16: 1, 17: 2, 18: 3, 24: 1, 25: 2, 32: 1, 40: 1, 42: 2, 41: 3, 48: 2}
assert all(blocks[4096 * n : 4096 * (n + 1)] == bytes([v]) * 4096 for n, v in wanted.items())
EOF2
