#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGTERM, nbdloopd accepts no new connection, carries out and answers the requests that it has
# received, closes idle connections, and ends with status 0. Every acknowledged write is in the
# image.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

drains()
{
	rm -f "$image"
	truncate -s 64M "$image"
	start_nbdloopd --engine="$engine" --threads=2 "$image"
	"$python" - "$uri" "$pid" "$image" "$time_factor" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong end with engine $engine"
import nbd, os, signal, sys, time
uri, pid, image, time_factor = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
idle = nbd.NBD()
idle.connect_uri(uri)
busy = [nbd.NBD() for _ in range(4)]
for h in busy:
    h.connect_uri(uri)
size = 1 << 20
answered = []
for n, h in enumerate(busy):
    for i in range(16):
        offset = (n * 16 + i) * size
        data = bytes([1 + n * 16 + i]) * size
        def done(err, offset=offset, byte=data[0]):
            if err.value == 0:
                answered.append((offset, byte))
            return 1
        h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset, completion=done)
# Some requests are in flight.
while not answered:
    for h in busy:
        h.poll(0)
os.kill(pid, signal.SIGTERM)
for h in busy:
    while h.aio_in_flight() > 0 and not h.aio_is_dead() and not h.aio_is_closed():
        try:
            h.poll(1000)
        except nbd.Error:
            break
# The server notices the signal after a moment.
end = time.monotonic() + 10 * time_factor
try:
    while time.monotonic() < end:
        idle.pread(512, 0)
    sys.exit("an idle connection is served after SIGTERM")
except nbd.Error:
    pass
print(len(answered), "of 64 writes were answered")
with open(image, "rb") as f:
    for offset, byte in answered:
        f.seek(offset)
        if f.read(size) != bytes([byte]) * size:
            sys.exit(f"the answered write at {offset} is not in the image")
EOF2
	end_process server
	expect_equal "status at the end" 0 "$end_status"
	[ ! -e "$sock" ] || fail "the socket is still there"
	expect_log '^nbdloopd: ending$'
	reject_log 'unanswered'
}

each_engine drains

# A client that doesn't take its replies can't keep the server alive: the server disconnects it
# after the time limit.
dd if=/dev/zero of="$image" bs=8M count=1 conv=notrunc status=none # what it reads, not a hole
start_nbdloopd --drain-limit=1 --control="$dir/control" "$image"
cat >"$dir/deaf.py" <<'EOF2'
import sys, time
import nbd
uri, control, time_factor = sys.argv[1:]
from client import connect, send_all
from control import wait_for_requests
h = connect(uri)
buffers = [nbd.Buffer(8 << 20) for _ in range(16)]
for buffer in buffers:
    h.aio_pread(buffer, 0)
send_all(h)
wait_for_requests(control, 16, 20 * int(time_factor))
print("taken", flush=True)
time.sleep(600)
EOF2

be_deaf()
{
	rm -f "$dir/deaf.log"
	spawn deaf "$python" "$dir/deaf.py" "$uri" "$dir/control" "$time_factor"
	wait_until "the requests are taken" grep -q taken "$dir/deaf.log"
}

be_deaf
stop_server
expect_log 'requests unanswered'

# The server obeys a second signal at once.
start_nbdloopd --drain-limit=600 --control="$dir/control" "$image"
server_pid=$pid
end_process deaf TERM
be_deaf
kill -TERM "$server_pid"
# Otherwise the two signals would be delivered as one.
wait_until "the first signal is noticed" grep -q ending "$log"
sleep 0.5
process_gone "$server_pid" && fail "it didn't wait for the client"
stop_server
