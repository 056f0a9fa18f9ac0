# SPDX-License-Identifier: BSD-3-Clause
"""Three clients that write while the disk is frozen: one closes, one stays, one says goodbye.

    PROGRAM URI IMAGE CONTROL
"""
import os
import socket
import subprocess
import sys
import time

import nbd

from client import connect, send_all, take
from control import status
from waiting import wait_until

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


def requests():
    return sorted(connection["requests"] for connection in status(control)["connections"])


gone, patient, polite = [connect(uri) for _ in range(3)]
subprocess.run(["fsfreeze", "-f", os.path.dirname(image)], check=True)
write(gone, 1)
write(patient, 2)
write(polite, 3)
polite.aio_disconnect()
send_all(polite)
with socket.socket(fileno=os.dup(polite.aio_get_fd())) as s:
    s.shutdown(socket.SHUT_WR)
wait_until("as many as can be are in flight", lambda: requests() == [BEGUN] * 3)
# Deleting the object closes its socket.
del gone
time.sleep(2)
assert requests() == [BEGUN] * 3, "a connection has ended too early"
subprocess.run(["fsfreeze", "-u", os.path.dirname(image)], check=True)

take(patient)
while not polite.aio_is_closed():
    polite.poll(1000)
wait_until("the connections of clients that are gone end", lambda: len(requests()) == 1)
# Of the writes that had begun, the disk had received as many as it takes at once.
assert in_image(1)[BEGUN:] == [False] * (WRITES - BEGUN), "more than what had begun"
for client in 2, 3:
    assert in_image(client) == [True] * WRITES, f"a write of client {client} is missing"
