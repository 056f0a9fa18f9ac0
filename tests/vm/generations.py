# SPDX-License-Identifier: BSD-3-Clause
"""Writes the same blocks again and again, each time with a higher number, and looks whether one ever goes back.

    generations.py write DEVICE RECORD THREADS LIMIT
    generations.py check DEVICE-OR-FILE RECORD

Each thread has a block of its own.  `write` reads the block, which has to hold the last number whose write
was acknowledged; writes the next number; remembers it in the file RECORD.  It ends by SIGTERM, with
status 0; with 1 when a read shows something else.  A request that takes longer than LIMIT seconds: 2.  An error:
3, when all threads have had theirs.  The last line says what it was.

`check` compares all blocks with RECORD; what was written and not acknowledged may be there.
"""
import mmap
import os
import signal
import struct
import sys
import threading
import time

# Larger than one piece of the server's engine, so that these pieces are under way together.
BLOCK = 256 << 10
PAGE = 4096
MOST = 64


class Record:
    def __init__(self, path, size=MOST * 8):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)

    def get(self, number):
        return struct.unpack_from("<Q", self.map, number * 8)[0]

    def set(self, number, generation):
        struct.pack_into("<Q", self.map, number * 8, generation)


def fill(buffer, number, generation):
    for start in range(0, BLOCK, PAGE):
        struct.pack_into("<QQQ", buffer, start, number, start, generation)


def generations(buffer, number):
    """Those of its pages; -1 for a page that isn't one of this block's."""
    seen = set()
    for start in range(0, BLOCK, PAGE):
        block, place, generation = struct.unpack_from("<QQQ", buffer, start)
        seen.add(generation if generation == 0 or (block, place) == (number, start) else -1)
    return seen


class Writer(threading.Thread):
    def __init__(self, fd, record, number):
        super().__init__(daemon=True)
        self.fd, self.record, self.number = fd, record, number
        self.buffer = mmap.mmap(-1, BLOCK)
        self.since, self.doing = None, ""
        self.longest, self.count = 0.0, 0
        self.error = self.stale = None

    def timed(self, doing, call, *arguments):
        self.doing, self.since = doing, time.monotonic()
        done = call(*arguments)
        self.longest = max(self.longest, time.monotonic() - self.since)
        self.since = None
        if done != BLOCK:
            raise OSError(0, f"{doing} of block {self.number}: {done} bytes")

    def run(self):
        try:
            self.work()
        except OSError as error:
            self.longest = max(self.longest, time.monotonic() - (self.since or time.monotonic()))
            self.since = None
            self.error = f"{self.doing} of block {self.number}: {error.strerror}"

    def work(self):
        start = self.number * BLOCK
        while not stopping.is_set():
            generation = self.record.get(self.number)
            self.timed("read", os.preadv, self.fd, [self.buffer], start)
            seen = generations(self.buffer, self.number)
            if seen != {generation}:
                self.stale = f"block {self.number} holds {sorted(seen)}, but {generation} was acknowledged"
                return
            fill(self.buffer, self.number, generation + 1)
            self.timed("write", os.pwritev, self.fd, [self.buffer], start)
            self.record.set(self.number, generation + 1)
            self.count += 1


stopping = threading.Event()


def write(device, record, threads, limit):
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    writers = [Writer(fd, Record(record), number) for number in range(int(threads))]
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        time.sleep(0.2)
        for writer in writers:
            since = writer.since
            if writer.stale:
                end(1, writer.stale)
            if since and time.monotonic() - since > float(limit):
                end(2, f"{writer.doing} of block {writer.number} hangs for more than {limit} seconds")
    for writer in writers:
        if writer.stale:
            end(1, writer.stale)
    print(f"{sum(w.count for w in writers)} writes, the longest request took {max(w.longest for w in writers):.1f} s")
    errors = [writer.error for writer in writers if writer.error]
    if errors:
        end(3, errors[0])


def end(status, text):
    print(text, flush=True)
    # Not through Python's own end, which waits for a thread that hangs.
    os._exit(status)


def check(device, record):
    numbers = Record(record)
    fd = os.open(device, os.O_RDONLY)
    for number in range(MOST):
        generation = numbers.get(number)
        if generation == 0:
            continue
        seen = generations(os.pread(fd, BLOCK, number * BLOCK), number)
        if not seen <= {generation, generation + 1}:
            end(1, f"block {number} holds {sorted(seen)}, but {generation} was acknowledged")


if sys.argv[1] == "write":
    write(*sys.argv[2:])
else:
    check(*sys.argv[2:])
