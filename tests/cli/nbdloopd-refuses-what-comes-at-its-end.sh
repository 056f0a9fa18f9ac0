#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGTERM, the server carries out every request that clients have already sent, even one that has
# to wait, and refuses later ones with ESHUTDOWN. After the time limit, it also refuses the requests
# that still wait, and does not carry them out.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
cat >"$dir/clients.py" <<'EOF2'
# One client's reads take all of the memory, and another client's writes wait for it: more writes
# than the server receives at once, or, in the case of the time limit, one write that is longer than
# the memory.
import errno, os, re, signal, sys, time
import nbd
uri, image, log, pid, case, control, time_factor = sys.argv[1:]
LIMIT = 20 * int(time_factor) # seconds
from client import connect, noting, send_all, take
from control import wait_for_requests
WRITES, SIZE = (28, 4096) if case == "drained" else (1, 3 << 20)

def written():
    with open(image, "rb") as f:
        return f.read(WRITES * SIZE)

reads, writes = [], []
writer, reader = connect(uri), connect(uri)
# The server looks for holes now, and finds none: a read for which it looks for holes takes its
# memory later.
reader.pread(1 << 20, 0)
for i in range(4):
    reader.aio_pread(nbd.Buffer(8 << 20), 16 << 20, completion=noting(reads, i))
send_all(reader)
wait_for_requests(control, 4, LIMIT)
# When the server ends, it closes an idle connection in the turn of the event loop that also tells
# all other connections.
idle = connect(uri)
idle.pread(512, 0)
for i in range(WRITES):
    writer.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"w" * SIZE)), i * SIZE, completion=noting(writes, i))
# The sockets have no room for all of the longer write.
if case == "drained":
    send_all(writer)
os.kill(int(pid), signal.SIGTERM)
end = time.monotonic() + LIMIT
try:
    while not idle.aio_is_closed():
        assert time.monotonic() < end, "it does not end"
        idle.poll(1000)
except nbd.Error:
    pass
assert "ending" in open(log).read()
if case == "drained":
    # Sending a whole reply takes further turns.
    while not reads:
        reader.poll(1000)
    reader.aio_pread(nbd.Buffer(4096), 0, completion=noting(reads, "late read"))
    reader.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"late" * 1024)), 1 << 20, completion=noting(reads, "late write"))
    send_all(reader)
    take(reader)
    late = errno.ESHUTDOWN
    assert dict(reads) == {0: 0, 1: 0, 2: 0, 3: 0, "late read": late, "late write": late}, reads
    take(writer)
    assert sorted(writes) == [(i, 0) for i in range(WRITES)], writes
    assert written() == b"w" * WRITES * SIZE, "an answered write is not in the image"
    with open(image, "rb") as f:
        f.seek(1 << 20)
        assert f.read(4096) == bytes(4096), "a refused write was carried out"
else:
    take(writer)
    assert sorted(writes) == [(i, errno.ESHUTDOWN) for i in range(WRITES)], writes
for h in [writer] if case == "limited" else [reader, writer]:
    try:
        while not h.aio_is_closed():
            h.poll(1000)
    except nbd.Error:
        pass
if case == "limited":
    assert written() == bytes(WRITES * SIZE), "a refused write was carried out"
EOF2

start() # [OPTION...]
{
	rm -f "$image"
	dd if=/dev/zero of="$image" bs=8M count=8 status=none
	start_nbdloopd --engine="$engine" --threads=1 --memory=32M --control="$dir/control" "$@" "$image"
}

run_clients() # CASE
{
	"$python" "$dir/clients.py" "$uri" "$image" "$log" "$pid" "$1" "$dir/control" "$time_factor" >"$dir/client.log" 2>&1
}

refuses()
{
	start
	run_clients drained ||
		fail "wrong with engine $engine"
	end_process server
	expect_equal "status at the end" 0 "$end_status"
	reject_log 'unanswered'

	start --drain-limit=$((2 * time_factor))
	run_clients limited ||
		fail "wrong after the limit with engine $engine"
	end_process server
	expect_equal "status at the end" 0 "$end_status"
}

each_engine refuses
