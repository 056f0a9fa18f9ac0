# SPDX-License-Identifier: BSD-3-Clause
"""Writes, records in the file WANTED what the image must hold, and stays connected.

    PROGRAM URI WANTED
"""
import os
import random
import signal
import sys

import nbd

from client import connect

h = connect(sys.argv[1], unaligned=True)
wanted = bytearray(8 << 20)
choice = random.Random(7)
for i in range(200):
    length = choice.choice([1, 100, 512, 4096, 70000, 1 << 20])
    offset = choice.randrange(len(wanted) - length)
    data = choice.randbytes(length)
    h.pwrite(data, offset, nbd.CMD_FLAG_FUA if i % 3 == 0 else 0)
    wanted[offset:offset + length] = data
h.flush()
with open(sys.argv[2] + ".new", "wb") as f:
    f.write(wanted)
os.rename(sys.argv[2] + ".new", sys.argv[2])
signal.pause()
