#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Adjacent writes that were merged fail together. While the server tries each of them by itself, a
# newer write of another client that waits for their range continues to wait, so that its data is
# what remains. The server doesn't try the writes again when their client is gone, and doesn't write
# them again when only their sync has failed.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
"${CC:-cc}" -D_GNU_SOURCE -shared -fPIC -o "$dir/fail_write.so" "$lib/fail_write.c"
image=$dir/disk.img

cat >"$dir/client.py" <<'EOP'
import sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

path, calls, case = sys.argv[2:]
BLOCK, COUNT = 4096, 4
LENGTH = BLOCK * COUNT


def writes(flags=0):
    return b"".join(request(SIMPLE, WRITE, n * BLOCK, BLOCK, flags, n) + b"o" * BLOCK for n in range(COUNT))


def answer(client, length=0):
    magic, error, cookie = struct.unpack(">IIQ", client.receive(16))
    assert magic == 0x67446698
    return error, client.receive(length) if length and not error else b""


def tried():
    """Lengths and offsets of the writes so far."""
    with open(calls) as f:
        return f.read().split("\n")[:-1]


def wait(true):
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


# The connections are most likely on two loops; on a single loop the order must hold as well.
first, second = Raw(path, SIMPLE), Raw(path, SIMPLE)
if case == "sync":
    first.send(writes(FUA))
    assert [answer(first)[0] for _ in range(COUNT)] == [5] * COUNT
    assert tried() == [f"{LENGTH} 0"], tried()
    sys.exit()
first.send(writes())
wait(lambda: os.path.exists(calls))
if case == "gone":
    first.socket.close()
second.send(request(SIMPLE, WRITE, 0, LENGTH) + b"n" * LENGTH)
if case == "there":
    assert [answer(first)[0] for _ in range(COUNT)] == [0] * COUNT
assert answer(second)[0] == 0
second.send(request(SIMPLE, READ, 0, LENGTH))
error, data = answer(second, LENGTH)
assert error == 0 and data == b"n" * LENGTH, "an older write has landed on a newer one"
if case == "gone":
    time.sleep(0.5)
    assert f"{BLOCK} 0" not in tried(), "written again for nobody"
second.send(request(SIMPLE, READ, 0, LENGTH))
error, data = answer(second, LENGTH)
assert error == 0 and data == b"n" * LENGTH, "an older write has landed on a newer one later"
EOP

fails() # CASE [SECONDS]
{
	truncate -s 0 "$image"
	truncate -s 4M "$image"
	rm -f "$dir/calls"
	server_prefix=(env LD_PRELOAD="$dir/fail_write.so" ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"
		FAIL_WRITE_CALLS="$dir/calls" ${2:+FAIL_WRITE_SECONDS="$2"})
	start_nbdloopd --threads=2 --engine=threads --direct-io=off "$image"
	quietly "$python" "$dir/client.py" "$lib" "$sock" "$dir/calls" "$1"
	expect_log ' failed: Input/output error'
	stop_server
}

# The first attempt takes two seconds, so that requests which arrive meanwhile have to wait for the
# range.
fails there 2
fails gone 2
fails sync
