#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes that waited for memory, in the server or unread in the socket, are dropped when their client has closed the
# connection meanwhile: it may have sent them again elsewhere, with newer ones behind.  They are carried out when it
# is still there, or said goodbye behind them and waits.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

# Three clients write while another one, which doesn't take what it reads, has all of the memory.  The writes of each are
# more than the server receives at once.
drops()
{
	rm -f "$image"
	truncate -s 64M "$image"
	dd if=/dev/zero of="$image" bs=8M seek=2 count=1 conv=notrunc status=none # what is read, not a hole
	start_nbdloopd --engine="$engine" --threads=1 --memory=32M --control "$dir/control" "$image"
	"$python" - "$uri" "$image" "$log" "$dir/control" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
import json, os, socket, sys, time
import nbd
uri, image, log, control = sys.argv[1:]
WRITES, SIZE, AREA = 28, 4096, 1 << 20

def connect():
    h = nbd.NBD()
    h.connect_uri(uri)
    return h

def send_all(h):
    while h.aio_get_direction() & nbd.AIO_DIRECTION_WRITE:
        h.aio_notify_write()

def write(h, client):
    for i in range(WRITES):
        h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([client]) * SIZE), client * AREA + i * SIZE)
    send_all(h)

def in_image(client):
    with open(image, "rb") as f:
        f.seek(client * AREA)
        return f.read(WRITES * SIZE)

def wait(what, true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "waited in vain: " + what
        time.sleep(0.05)

def connections():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(control)
        s.sendall(b"status\n")
        return len(json.loads(s.makefile().readline())["connections"])

deaf, gone, patient, polite = [connect() for _ in range(4)]
buffers = [nbd.Buffer(8 << 20) for _ in range(5)]
for buffer in buffers:
    deaf.aio_pread(buffer, 16 << 20)
send_all(deaf)
time.sleep(0.5)
write(gone, 1)
write(patient, 2)
write(polite, 3)
polite.aio_disconnect()
send_all(polite)
with socket.socket(fileno=os.dup(polite.aio_get_fd())) as s:
    s.shutdown(socket.SHUT_WR)
time.sleep(0.5)
# Which closes its socket.
del gone
time.sleep(2)
assert connections() == 4, "a connection has ended too early"
for client in 1, 2, 3:
    assert in_image(client) == bytes(WRITES * SIZE), f"the writes of client {client} did not wait"

while deaf.aio_in_flight() > 0:
    deaf.poll(1000)
while patient.aio_in_flight() > 0:
    patient.poll(1000)
while not polite.aio_is_closed():
    polite.poll(1000)
wait("the connections of clients that are gone end", lambda: connections() == 2)
assert in_image(1) == bytes(WRITES * SIZE), "what a client that is gone had sent was carried out"
for client in 2, 3:
    assert in_image(client) == bytes([client]) * WRITES * SIZE, f"a write of client {client} is missing"
EOF2
	expect_equal "clients of which the log tells that they are gone" 1 "$(grep -c 'gave up on this connection' "$log")"
	stop_server
}

each_engine drops
