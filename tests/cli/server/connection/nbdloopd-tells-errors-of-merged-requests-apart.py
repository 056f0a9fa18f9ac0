# SPDX-License-Identifier: BSD-3-Clause
"""Adjacent requests of which some fail: what each is told, and what is tried again.

    PROGRAM SOCKET IMAGE COPY-OF-IMAGE STRACE-OUTPUT
"""
import glob
import os
import re
import sys

from raw_nbd import READ, SIMPLE, WRITE, Raw, request
from waiting import wait_until

path, image, copy, calls = sys.argv[1:]
BLOCK = 4096
EIO = 5


def writes():
    """Offset and length of all that were tried."""
    found = []
    for name in glob.glob(calls + ".*"):
        with open(name) as f:
            found += re.findall(r'^pwrite64\(\d+, ""\.\.\., (\d+), (\d+)\)', f.read(), re.M)
    return sorted((int(offset), int(length)) for length, offset in found)


def answers(client, count, length=0):
    """By block: (error, data)."""
    replies = [client.reply(length) for _ in range(count)]
    return {cookie: (error, data) for cookie, error, data in replies}


with open(copy, "rb") as f:
    held = f.read()
with Raw(path, SIMPLE) as client:
    written = {n: bytes([n]) * BLOCK for n in (8, 9, 10, 11)}
    client.send(b"".join(request(SIMPLE, WRITE, n * BLOCK, BLOCK, 0, n) + data for n, data in written.items()))
    told = answers(client, len(written))
    assert set(error for error, _ in told.values()) <= {0, EIO}, told
    with open(image, "rb") as f:
        for n, (error, _) in told.items():
            f.seek(n * BLOCK)
            assert f.read(BLOCK) == (written[n] if error == 0 else held[n * BLOCK: (n + 1) * BLOCK]), (n, error)
    wanted = sorted([(8 * BLOCK, 4 * BLOCK)] + [(n * BLOCK, BLOCK) for n in written])
    wait_until(f"{wanted} were tried", lambda: writes() == wanted, seen=writes)

    # The image has been truncated.
    os.truncate(image, 102 * BLOCK)
    client.send(b"".join(request(SIMPLE, READ, n * BLOCK, BLOCK, 0, n) for n in (100, 101, 102, 103)))
    told = answers(client, 4, BLOCK)
    assert told == {n: (0, held[n * BLOCK: (n + 1) * BLOCK]) if n < 102 else (EIO, b"") for n in (100, 101, 102, 103)}, \
        {n: error for n, (error, _) in told.items()}
