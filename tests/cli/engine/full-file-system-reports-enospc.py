# SPDX-License-Identifier: BSD-3-Clause
"""Writes until the file system is full, then after a trim.

    PROGRAM URI
"""
import sys

import nbd

from client import connect

h = connect(sys.argv[1], unaligned=True)
piece = 300000


def pattern(i):
    return bytes([i % 251 + 1]) * piece


written = 0
try:
    while (written + 1) * piece <= h.get_size():
        h.pwrite(pattern(written), written * piece)
        h.flush()
        written += 1
    sys.exit("64 MiB went into a file system of 16 MiB")
except nbd.Error as error:
    assert error.errno == "ENOSPC", error
assert written > 10, f"ENOSPC after {written} writes"
for i in range(written):
    assert h.pread(piece, i * piece) == pattern(i), f"piece {i} has changed"
# After a trim there is space again: a write elsewhere succeeds.
h.trim(8 * piece, 0)
h.pwrite(pattern(200), 40 << 20)
h.flush()
assert h.pread(piece, 40 << 20) == pattern(200)
h.shutdown()
