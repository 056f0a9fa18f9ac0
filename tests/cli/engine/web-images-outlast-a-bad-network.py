# SPDX-License-Identifier: BSD-3-Clause
"""A client of an image on a web server.

    PROGRAM URI IMAGE reads          many reads at a time succeed, with the right bytes
    PROGRAM URI IMAGE fails SECONDS  a read fails, and not earlier
    PROGRAM URI IMAGE file           the export "file" is read at once
"""
import random
import sys
import time

import nbd

from client import connect, noting, send_all, take

uri, image, what = sys.argv[1:4]
uri = uri.replace(":///", ":///file" if what == "file" else ":///a")
with open(image, "rb") as f:
    right = f.read()
h = connect(uri, unaligned=True)
if what == "fails":
    begin = time.monotonic()
    try:
        h.pread(4096, 8192)
    except nbd.Error:
        taken = time.monotonic() - begin
        if taken < float(sys.argv[4]):
            sys.exit(f"the read failed after {taken} seconds")
    else:
        sys.exit("the read succeeds")
elif what == "file":
    begin = time.monotonic()
    if h.pread(4096, 8192) != right[8192:12288]:
        sys.exit("wrong bytes")
    if time.monotonic() - begin > 2:
        sys.exit("the read waited")
else:
    ranges = [(0, len(right))]
    for _ in range(10):
        offset = random.randrange(len(right))
        ranges.append((offset, random.randint(1, min(200000, len(right) - offset))))
    results, buffers = [], []
    for offset, length in ranges:
        buffer = nbd.Buffer(length)
        buffers.append(buffer)
        h.aio_pread(buffer, offset, completion=noting(results, offset))
    send_all(h)
    take(h)
    for (offset, length), buffer in zip(ranges, buffers):
        if (offset, 0) not in results:
            sys.exit(f"the read of {length} bytes at {offset} failed")
        if buffer.to_bytearray() != right[offset:offset + length]:
            sys.exit(f"wrong bytes: {length} at {offset}")
