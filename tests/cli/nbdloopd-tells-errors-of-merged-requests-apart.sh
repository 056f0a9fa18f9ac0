#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When an operation that serves several adjacent requests fails, the server tries each request by
# itself: those that can be carried out are, the others get the error, and no failed request is
# answered with success.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img
dd if=/dev/urandom of="$image" bs=1M count=1 status=none
cp "$image" "$dir/copy.img"
start_nbdloopd --threads=1 --engine=threads "$image"
# The first write of each thread fails; each thread's calls go to a file of its own.
spawn strace strace -ff -s 0 -p "$pid" -o "$dir/calls" -e trace=pwrite64 -e inject=pwrite64:error=EIO:when=1
wait_until "strace looks at the server" grep -q attached "$dir/strace.log"
"$python" - "$lib" "$sock" "$image" "$dir/copy.img" "$dir/calls" <<'EOF2' >"$dir/client.log" 2>&1 || fail "errors are not told apart"
import glob, os, re, sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

path, image, copy, calls = sys.argv[2:]
BLOCK = 4096
EIO = 5


def writes():
    """Offset and length of all that were tried."""
    found = []
    for name in glob.glob(calls + ".*"):
        with open(name) as f:
            found += re.findall(r'^pwrite64\(\d+, ""\.\.\., (\d+), (\d+)\)', f.read(), re.M)
    return sorted((int(offset), int(length)) for length, offset in found)


def answers(client, kind, count):
    """By block: (error, data)."""
    found = {}
    for _ in range(count):
        magic, error, cookie = struct.unpack(">IIQ", client.receive(16))
        assert magic == 0x67446698
        found[cookie] = error, client.receive(BLOCK) if kind == READ and not error else b""
    return found


def expect_writes(wanted):
    end = time.monotonic() + TIMEOUT
    while writes() != sorted(wanted) and time.monotonic() < end:
        time.sleep(0.05)
    assert writes() == sorted(wanted), (writes(), wanted)


with open(copy, "rb") as f:
    held = f.read()
with Raw(path, SIMPLE) as client:
    written = {n: bytes([n]) * BLOCK for n in (8, 9, 10, 11)}
    client.send(b"".join(request(SIMPLE, WRITE, n * BLOCK, BLOCK, 0, n) + data for n, data in written.items()))
    told = answers(client, WRITE, len(written))
    assert set(error for error, _ in told.values()) <= {0, EIO}, told
    with open(image, "rb") as f:
        for n, (error, _) in told.items():
            f.seek(n * BLOCK)
            assert f.read(BLOCK) == (written[n] if error == 0 else held[n * BLOCK : (n + 1) * BLOCK]), (n, error)
    expect_writes([(8 * BLOCK, 4 * BLOCK)] + [(n * BLOCK, BLOCK) for n in written])

    # The image has been truncated.
    os.truncate(image, 102 * BLOCK)
    client.send(b"".join(request(SIMPLE, READ, n * BLOCK, BLOCK, 0, n) for n in (100, 101, 102, 103)))
    told = answers(client, READ, 4)
    assert told == {n: (0, held[n * BLOCK : (n + 1) * BLOCK]) if n < 102 else (EIO, b"") for n in (100, 101, 102, 103)}, \
        {n: error for n, (error, _) in told.items()}
EOF2
end_process strace INT
stop_server
