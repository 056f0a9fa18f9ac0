# SPDX-License-Identifier: BSD-3-Clause
"""Writes an image from end to end, in requests of many lengths, several times, and reads it back."""
import random
import sys

import nbd

MIB = 1 << 20
SIZE = 8 * MIB
client = nbd.NBD()
client.set_strict_mode(client.get_strict_mode() & ~nbd.STRICT_ALIGN)
client.connect_uri(sys.argv[1])
for seed in range(1, 6):
    source = random.Random(seed)
    data = b""
    while len(data) < SIZE:
        piece = source.randbytes(min(source.choice((1, 512, 4096, 16384, 65536, MIB)), SIZE - len(data)))
        client.pwrite(piece, len(data))
        data += piece
    for start in range(0, SIZE, MIB):
        assert client.pread(MIB, start) == data[start:start + MIB], (seed, start)
client.shutdown()
