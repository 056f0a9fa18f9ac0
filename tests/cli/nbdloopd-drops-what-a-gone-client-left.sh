#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a client has closed its connection, the server drops those of its writes that waited because
# too many were in flight: the client may have sent them again elsewhere, followed by newer ones.
# The server carries out such writes when the client is still connected, or when it sent
# NBD_CMD_DISC after them and waits.
. "$(dirname "$0")/../lib/functions.sh"

require mke2fs fsfreeze
require_python_nbd
truncate -s 64M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/small" -t ext4 "$loop_device"
image=$dir/small/disk.img
# A frozen file system can't be unmounted.
on_exit eval "fsfreeze -u $dir/small 2>/dev/null || true"

# Three clients write while the disk is frozen. Each sends more requests than the server begins or
# receives at once.
drops()
{
	rm -f "$image"
	truncate -s 32M "$image"
	start_nbdloopd --engine="$engine" --threads=1 --control "$dir/control" "$image"
	"$python" - "$uri" "$image" "$dir/control" <<'EOF' >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
import json, os, socket, subprocess, sys, time
import nbd
from client import connect, send_all
uri, image, control = sys.argv[1:]
BEGUN, WRITES, SIZE, STEP, AREA = 256, 280, 4096, 8192, 4 << 20

def write(h, client):
    for i in range(WRITES):
        h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([client]) * SIZE), client * AREA + i * STEP)
    send_all(h)

def in_image(client):
    with open(image, "rb") as f:
        f.seek(client * AREA)
        data = f.read(WRITES * STEP)
    return [data[i * STEP:i * STEP + SIZE] == bytes([client]) * SIZE for i in range(WRITES)]

def wait(what, true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "waited in vain: " + what
        time.sleep(0.05)

def requests():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(control)
        s.sendall(b"status\n")
        return sorted(c["requests"] for c in json.loads(s.makefile().readline())["connections"])

gone, patient, polite = [connect(uri) for _ in range(3)]
subprocess.run(["fsfreeze", "-f", os.path.dirname(image)], check=True)
write(gone, 1)
write(patient, 2)
write(polite, 3)
polite.aio_disconnect()
send_all(polite)
with socket.socket(fileno=os.dup(polite.aio_get_fd())) as s:
    s.shutdown(socket.SHUT_WR)
wait("as many as can be are under way", lambda: requests() == [BEGUN] * 3)
# Deleting the object closes its socket.
del gone
time.sleep(2)
assert requests() == [BEGUN] * 3, "a connection has ended too early"
subprocess.run(["fsfreeze", "-u", os.path.dirname(image)], check=True)

while patient.aio_in_flight() > 0:
    patient.poll(1000)
while not polite.aio_is_closed():
    polite.poll(1000)
wait("the connections of clients that are gone end", lambda: len(requests()) == 1)
# Of the writes that had begun, the disk had received as many as it takes at once.
assert in_image(1)[BEGUN:] == [False] * (WRITES - BEGUN), "more than what had begun"
for client in 2, 3:
    assert in_image(client) == [True] * WRITES, f"a write of client {client} is missing"
EOF
	expect_equal "clients of which the log tells that they are gone" 1 "$(grep -c 'gave up on this connection' "$log")"
	stop_server
}

# Here io_submit() itself waits for the disk, and blocks the thread, its connections and its status.
engines=${engines/aio/}
each_engine drops
