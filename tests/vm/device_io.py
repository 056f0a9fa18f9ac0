#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Direct reads and writes of a block device, every byte of which is compared.

    device_io.py read DEVICE DATA COUNT     so many random 4 KiB reads, each after a pause
    device_io.py write DEVICE DATA COUNT    so many random 4 KiB writes, each after a pause
    device_io.py mixed DEVICE DATA SEED     four threads: writes, reads, writes that are durable at once,
                                            syncs, discards and zeroes

DATA is a file that holds what the device holds; it is changed alike.
"""
import fcntl
import mmap
import os
import random
import struct
import sys
import threading
import time

BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
BLOCK = 4096
LARGEST = 512 << 10
THREADS = 4
OPERATIONS = 60
PAUSE = 0.001


def open_direct(path, flags=os.O_RDWR):
    return os.open(path, flags | os.O_DIRECT)


def read(fd, buffer, offset, length):
    view = memoryview(buffer)[:length]
    if os.preadv(fd, [view], offset) != length:
        sys.exit(f"read of {length} bytes at {offset} is short")
    return bytes(view)


def write(fd, buffer, offset, data):
    buffer[: len(data)] = data
    if os.pwritev(fd, [memoryview(buffer)[: len(data)]], offset) != len(data):
        sys.exit(f"write of {len(data)} bytes at {offset} is short")


def compare(seen, wanted, offset, when):
    if seen != wanted:
        at = next(i for i in range(len(wanted)) if seen[i] != wanted[i])
        sys.exit(f"{when}: the byte at {offset + at} is {seen[at]:#x} and should be {wanted[at]:#x}")


def one_at_a_time(path, model, count, changes):
    fd = open_direct(path)
    buffer = mmap.mmap(-1, BLOCK)
    chance = random.Random(count)
    for _ in range(count):
        offset = chance.randrange(len(model) // BLOCK) * BLOCK
        # The server goes to sleep for the next request in this time, however it was woken.
        time.sleep(PAUSE)
        if changes:
            model[offset : offset + BLOCK] = chance.randbytes(BLOCK)
            write(fd, buffer, offset, model[offset : offset + BLOCK])
        else:
            compare(read(fd, buffer, offset, BLOCK), model[offset : offset + BLOCK], offset, "reading")


class Worker(threading.Thread):
    """Changes one part of the device, and looks at it again and again."""

    def __init__(self, path, model, start, length, seed):
        super().__init__()
        self.path, self.model, self.part, self.length = path, model, start, length
        self.chance = random.Random(seed)
        self.failure = "did not finish"

    def range(self):
        length = BLOCK * int(2 ** self.chance.uniform(0, (LARGEST // BLOCK).bit_length() - 1))
        return self.part + self.chance.randrange((self.length - length) // BLOCK) * BLOCK, length

    def change(self, fd, durable, buffer):
        offset, length = self.range()
        what = self.chance.randrange(8)
        if what < 4:
            data = self.chance.randbytes(length)
            self.model[offset : offset + length] = data
            write(durable if what == 3 else fd, buffer, offset, data)
        elif what == 4:
            os.fsync(fd)
        elif what == 5:
            fcntl.ioctl(fd, BLKZEROOUT, struct.pack("QQ", offset, length))
            self.model[offset : offset + length] = bytes(length)
        elif what == 6:
            # Discarded blocks are what they were, or zero.
            fcntl.ioctl(fd, BLKDISCARD, struct.pack("QQ", offset, length))
            seen = read(fd, buffer, offset, length)
            for i in range(0, length, 512):
                if not any(seen[i : i + 512]):
                    self.model[offset + i : offset + i + 512] = bytes(512)
            compare(seen, self.model[offset : offset + length], offset, "after a discard")
        else:
            compare(read(fd, buffer, offset, length), self.model[offset : offset + length], offset, "reading")

    def run(self):
        try:
            fd, durable = open_direct(self.path), open_direct(self.path, os.O_RDWR | os.O_DSYNC)
            buffer = mmap.mmap(-1, LARGEST)
            for _ in range(OPERATIONS):
                self.change(fd, durable, buffer)
            for offset in range(self.part, self.part + self.length, LARGEST):
                compare(
                    read(fd, buffer, offset, LARGEST), self.model[offset : offset + LARGEST], offset, "at the end"
                )
            self.failure = None
        except (OSError, SystemExit) as error:
            self.failure = str(error)


def mixed(path, model, seed):
    part = len(model) // THREADS
    workers = [Worker(path, model, i * part, part, seed + i) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failures = [worker.failure for worker in workers if worker.failure]
    if failures:
        sys.exit(f"seed {seed}: " + "; ".join(failures))


def main():
    what, path, data, number = sys.argv[1:]
    with open(data, "rb") as f:
        model = bytearray(f.read())
    if what == "mixed":
        mixed(path, model, int(number))
    else:
        one_at_a_time(path, model, int(number), what == "write")
    with open(data, "wb") as f:
        f.write(model)


main()
