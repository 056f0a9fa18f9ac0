# SPDX-License-Identifier: BSD-3-Clause
"""A load that checks every byte it reads.

    verify_load.py URI CONNECTIONS SECONDS [SEED]

Each connection is a process of its own and owns every CONNECTIONS-th stripe of the export.
Stripes are 5000 bytes long, so that neighbours share a block of whatever size: a server that
loses a neighbour's bytes is caught.  Reads and writes have any alignment and length within and
across the stripes of their owner.  On SIGTERM, or after SECONDS, every process reads all of its
stripes once more; the exit status is 0 only if no request failed and no byte was wrong.
"""
import os
import random
import signal
import sys
import time

import nbd

STRIPE = 5000
SPAN = 4 << 20  # used bytes of the export, from its start


class Worker:
    def __init__(self, uri, number, workers, seed):
        self.random = random.Random(seed * 1000 + number)
        self.handle = nbd.NBD()
        self.handle.set_strict_mode(self.handle.get_strict_mode() & ~nbd.STRICT_ALIGN)
        self.handle.connect_uri(uri)
        span = min(SPAN, self.handle.get_size())
        self.stripes = [(start, min(STRIPE, span - start))
                        for start in range(number * STRIPE, span, workers * STRIPE)]
        self.model = {}
        self.requests = 0

    def piece(self):
        start, length = self.random.choice(self.stripes)
        skip = self.random.randrange(length)
        return start, skip, self.random.randint(1, length - skip)

    def fill(self):
        for start, length in self.stripes:
            self.model[start] = bytearray(self.random.randbytes(length))
            self.handle.pwrite(bytes(self.model[start]), start)

    def write(self):
        start, skip, count = self.piece()
        data = self.random.randbytes(count)
        flags = nbd.CMD_FLAG_FUA if self.random.random() < 0.02 else 0
        self.handle.pwrite(data, start + skip, flags)
        self.model[start][skip:skip + count] = data

    def read(self):
        start, skip, count = self.piece()
        self.compare(start, skip, count)

    def compare(self, start, skip, count):
        seen = self.handle.pread(count, start + skip)
        wanted = self.model[start][skip:skip + count]
        if seen != wanted:
            where = next(i for i in range(count) if seen[i] != wanted[i])
            raise ValueError(f"wrong byte at {start + skip + where}: read of {count} bytes"
                             f" at {start + skip} after {self.requests} requests")

    def compare_all(self):
        """In large reads, which a slow disk has soon done; the others' stripes are skipped."""
        piece = 32 * STRIPE
        for place in range(0, self.stripes[-1][0] + self.stripes[-1][1], piece):
            own = [(start, length) for start, length in self.stripes if place <= start < place + piece]
            if not own:
                continue
            first, end = own[0][0], own[-1][0] + own[-1][1]
            seen = self.handle.pread(end - first, first)
            for start, length in own:
                if seen[start - first:start - first + length] != self.model[start]:
                    self.compare(start, 0, length)
                    raise ValueError(f"wrong bytes at {start}, and right ones when they were read again")

    def run(self, seconds):
        self.fill()
        end = time.monotonic() + seconds
        while time.monotonic() < end and signal.SIGTERM not in signal.sigpending():
            self.write() if self.random.random() < 0.5 else self.read()
            self.requests += 1
        self.compare_all()
        self.handle.flush()
        self.handle.shutdown()


def work(uri, number, workers, seconds, seed):
    # The signal is blocked, so that it stays pending and interrupts no call of libnbd.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        Worker(uri, number, workers, seed).run(seconds)
    except Exception as error:
        print(f"connection {number} (seed {seed}): {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def main():
    uri, workers, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    children = []
    for number in range(workers):
        child = os.fork()
        if child == 0:
            os._exit(work(uri, number, workers, seconds, seed))
        children.append(child)
    running = set(children)

    def stop(*_):
        for child in running:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    failed = False
    for child in children:
        failed |= os.waitpid(child, 0)[1] != 0
        running.discard(child)
    sys.exit(failed)


main()
