# SPDX-License-Identifier: BSD-3-Clause
"""Reads with holes.

    PROGRAM holes URI          how they are told, of a sparse image
    PROGRAM none URI CALLS     an image without holes: strace's output has no calls for them
"""
import random
import sys

import nbd

from client import connect

KIB, MIB = 1 << 10, 1 << 20


def read(h, length, offset, flags=0):
    chunks = []

    def chunk(buf, at, status, err):
        chunks.append((at - offset, len(buf), status == nbd.READ_HOLE))
    data = h.pread_structured(length, offset, chunk, flags)
    end = 0
    for at, size, _ in sorted(chunks):
        assert at == end, chunks
        end += size
    assert end == length, chunks
    return data, [hole for _, _, hole in sorted(chunks)]


def tells_holes(uri):
    h = connect(uri)
    # A hole, the data of one block of the file system, a hole.
    data, holes = read(h, 3 * MIB, 0)
    assert holes == [True, False, True], holes
    assert data == bytes(MIB) + b"data" + bytes(2 * MIB - 4)
    assert read(h, 64 * KIB, 8 * MIB)[1] == [True]
    assert read(h, 60 * KIB, 8 * MIB)[1] == [False]
    data, holes = read(h, 3 * MIB, 0, nbd.CMD_FLAG_DF)
    assert holes == [False], holes
    assert data == bytes(MIB) + b"data" + bytes(2 * MIB - 4)
    data, holes = read(connect(uri, structured=False), 3 * MIB, 0)
    assert holes == [False], holes
    assert data[MIB:MIB + 4] == b"data"

    # The range has more holes than the reply of one read reports.
    for at in range(8 * MIB, 12 * MIB, 256 * KIB):
        h.pwrite(b"x" * 64 * KIB, at)
    data, holes = read(h, 4 * MIB, 8 * MIB)
    assert holes == [False, True, False, True, False], holes
    assert data == (b"x" * 64 * KIB + bytes(192 * KIB)) * 16

    # One client writes the data, then another reads it.
    other = connect(uri)
    model = bytearray(data + bytes(MIB))
    rng = random.Random(1)
    for _ in range(300):
        at, length = rng.randrange(1280) * 4096, rng.randrange(1, 17) * 4096
        length = min(length, 5 * MIB - at)
        if rng.random() < 0.6:
            new = rng.randbytes(length)
            h.pwrite(new, 8 * MIB + at)
        else:
            new = bytes(length)
            h.zero(length, 8 * MIB + at)
        model[at:at + length] = new
        start = rng.randrange(at // 4096 + 1) * 4096
        size = min(5 * MIB - start, at - start + length + 256 * KIB)
        assert read(other, size, 8 * MIB + start)[0] == model[start:start + size], "an answered write is not what is read"


def looks_for_none(uri, calls):
    h = connect(uri)
    for _ in range(200):
        h.pread(MIB, 0)
        h.pread(4096, 0)
    # The server looks at the number of blocks once, when the client's first large read arrives, and
    # when a client connects, at the file and at the loop devices of the machine; not at each read.
    with open(calls) as f:
        called = len(f.readlines())
    assert called < 100, called


{"holes": tells_holes, "none": looks_for_none}[sys.argv[1]](*sys.argv[2:])
