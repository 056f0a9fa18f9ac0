#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""tree_of_data.py DIRECTORY MIB: four threads write so much to files there and sync them; then all is read and
compared."""
import os
import random
import sys
import threading

MIB = 1 << 20
THREADS = 4


def content(number, i):
    return random.Random(number << 32 | i).randbytes(MIB)


def write(path, number, size):
    with open(path, "wb") as f:
        for i in range(size):
            f.write(content(number, i))
            # Some of it is waited for while the rest is written.
            if i % 32 == 31:
                f.flush()
                os.fsync(f.fileno())


def check(path, number, size):
    with open(path, "rb") as f:
        for i in range(size):
            if f.read(MIB) != content(number, i):
                sys.exit(f"{path}: MiB {i} is wrong")


def main():
    directory, size = sys.argv[1], int(sys.argv[2]) // THREADS
    paths = [os.path.join(directory, f"file{i}") for i in range(THREADS)]
    threads = [threading.Thread(target=write, args=(paths[i], i, size)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    for i in range(THREADS):
        check(paths[i], i, size)


main()
