# SPDX-License-Identifier: BSD-3-Clause
"""Two connections that read and write at random.

    PROGRAM PID REQUESTS apart|anywhere URI URI

When both have warmed up, and when both have made their requests, the server gets SIGUSR2.
"""
import itertools
import os
import random
import signal
import sys
import threading

import nbd

from client import connect

pid, requests, where, *uris = sys.argv[1:]
BLOCK = 4096
DEPTH = 16
WARM_UP = 2000
MIB = 1 << 20
# The start and length of each connection's part.
PLACES = {
    "apart": ((0, 8 * MIB), (40 * MIB, 8 * MIB)),
    "anywhere": ((0, 32 * MIB), (32 * MIB, 32 * MIB)),
}

barrier = threading.Barrier(2, action=lambda: os.kill(int(pid), signal.SIGUSR2))
failed = []


class Connection(threading.Thread):
    def __init__(self, number, uri):
        super().__init__()
        self.random = random.Random(number)
        self.handle = connect(uri)
        self.buffer = nbd.Buffer(BLOCK)
        # Use the offsets in turn, so that no two writes in flight overlap: overlapping ones would
        # have to wait for each other.
        start, length = PLACES[where][number]
        offsets = list(range(start, start + length, BLOCK))
        self.random.shuffle(offsets)
        self.offsets = itertools.cycle(offsets)

    def done(self, error):
        if error.value:
            failed.append(error.value)
        return 1

    def serve(self, count):
        while count or self.handle.aio_in_flight():
            while count and self.handle.aio_in_flight() < DEPTH:
                call = self.random.choice((self.handle.aio_pread, self.handle.aio_pwrite))
                call(self.buffer, next(self.offsets), self.done)
                count -= 1
            self.handle.poll(-1)

    def run(self):
        try:
            self.serve(WARM_UP)
            barrier.wait()
            self.serve(int(requests))
            barrier.wait()
            self.handle.shutdown()
        except Exception as error:
            failed.append(error)
            barrier.abort()


connections = [Connection(number, uri) for number, uri in enumerate(uris)]
for connection in connections:
    connection.start()
for connection in connections:
    connection.join()
sys.exit(f"failed: {failed[:10]}" if failed else 0)
