# SPDX-License-Identifier: BSD-3-Clause
"""Starts a server with two connections, and tells it to end while both are busy.

    PROGRAM IMAGE COMMAND...
"""
import errno
import random
import signal
import socket
import subprocess
import sys
import time

import nbd

from client import is_over

image, *command = sys.argv[1:]
DEPTH, SIZE, BLOCK = 128, 64 << 20, 4096
pairs = [socket.socketpair() for _ in range(2)]
command += [f"--fd={theirs.fileno()}" for _, theirs in pairs] + [image]
server = subprocess.Popen(command, pass_fds=[theirs.fileno() for _, theirs in pairs])
clients = []
for ours, theirs in pairs:
    theirs.close()
    h = nbd.NBD()
    h.connect_socket(ours.detach())
    clients.append(h)

done, wrong = 0, []
buffer = nbd.Buffer.from_bytearray(bytearray(b"x") * BLOCK)


def over(error):
    global done
    if error.value == 0:
        done += 1
    elif error.value not in (errno.ENOTCONN, errno.EPIPE, errno.ECONNRESET):
        wrong.append(errno.errorcode.get(error.value, error.value))
    return 1


def keep_busy(h):
    while h.aio_is_ready() and h.aio_in_flight() < DEPTH:
        offset = random.randrange(SIZE // BLOCK) * BLOCK
        random.choice((lambda: h.aio_pwrite(buffer, offset, completion=over),
                       lambda: h.aio_pread(nbd.Buffer(BLOCK), offset, completion=over),
                       lambda: h.aio_flush(completion=over)))()


start = time.monotonic()
told = False
while not all(is_over(h) for h in clients):
    for h in clients:
        try:
            keep_busy(h)
            if not is_over(h):
                h.poll(10)
        except nbd.Error as error:
            print(error)
    if not told and done > 2000:
        told = True
        server.send_signal(signal.SIGTERM)
    assert time.monotonic() - start < 100, "the connections do not end"
assert server.wait(30) == 0, "its status"
assert told and not wrong, f"refused: {wrong[:10]}, of {done} that were done"
print(done, "done")
