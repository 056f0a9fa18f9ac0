#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""memory_hog.py MIB SEED: fills so much memory with numbers of its own, and looks at all of it."""
import mmap
import random
import sys

MIB = 1 << 20


def content(seed, number):
    return random.Random(seed << 32 | number).randbytes(MIB)


def main():
    size, seed = int(sys.argv[1]), int(sys.argv[2])
    memory = mmap.mmap(-1, size * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for i in range(size):
        memory[i * MIB : (i + 1) * MIB] = content(seed, i)
    # In another order, so that what was used last isn't needed first.
    order = list(range(size))
    random.Random(seed).shuffle(order)
    for i in order:
        if memory[i * MIB : (i + 1) * MIB] != content(seed, i):
            sys.exit(f"MiB {i} of {size} is not what was put there")
    print(f"{size} MiB are right")


main()
