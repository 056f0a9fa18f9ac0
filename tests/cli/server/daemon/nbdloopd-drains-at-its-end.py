# SPDX-License-Identifier: BSD-3-Clause
"""Clients with requests in flight, and an idle one, of a server that is told to end.

    PROGRAM URI PID IMAGE
"""
import os
import signal
import sys
import time

import nbd

from client import connect, is_over
from waiting import FACTOR

uri, pid, image = sys.argv[1], int(sys.argv[2]), sys.argv[3]
idle = connect(uri)
busy = [connect(uri) for _ in range(4)]
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
    while h.aio_in_flight() > 0 and not is_over(h):
        try:
            h.poll(1000)
        except nbd.Error:
            break
# The server notices the signal after a moment.
end = time.monotonic() + 10 * FACTOR
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
