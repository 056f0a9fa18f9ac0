# SPDX-License-Identifier: BSD-3-Clause
"""Sends requests together, and sees in strace's output which operations they became.

    PROGRAM SOCKET IMAGE STRACE-OUTPUT
"""
import glob
import re
import sys

from raw_nbd import FUA, READ, SIMPLE, WRITE, Raw, request
from waiting import wait_until

path, image, calls = sys.argv[1:]
BLOCK = 4096
expected = set()
with open(image, "rb") as f:
    held = bytearray(f.read())


def operations():
    """All that was called for: ("read" or "write", whether it is synchronous, offset, length)."""
    found = set()
    for name in glob.glob(calls + ".*"):
        with open(name) as f:
            for match in re.finditer(r"^p(read|write)(?:64|v2)\(.*, (\d+)(, RWF_DSYNC)?\) *= (\d+)$", f.read(), re.M):
                found.add((match[1], match[3] is not None, int(match[2]), int(match[4])))
    return found


def sent_together(client, requests, wanted):
    data = b""
    for cookie, (kind, block, flags) in enumerate(requests):
        data += request(SIMPLE, kind, block * BLOCK, BLOCK, flags, cookie)
        if kind == WRITE:
            payload = bytes([cookie + 1]) * BLOCK
            held[block * BLOCK: (block + 1) * BLOCK] = payload
            data += payload
    client.send(data)
    lengths = [BLOCK if kind == READ else 0 for kind, *_ in requests]
    for _ in requests:
        cookie, error, data = client.reply(lengths)
        assert error == 0, (cookie, error)
        if lengths[cookie]:
            block = requests[cookie][1]
            assert data == held[block * BLOCK:(block + 1) * BLOCK]
    expected.update((kind, fua, first * BLOCK, count * BLOCK) for kind, fua, first, count in wanted)
    wait_until(f"{requests} are merged rightly", lambda: operations() == expected, seen=lambda: operations() ^ expected)


with Raw(path, SIMPLE) as client:
    sent_together(client, [(WRITE, 0, 0), (WRITE, 1, 0), (WRITE, 2, 0)], {("write", False, 0, 3)})
    sent_together(client, [(READ, 4, 0), (READ, 5, 0), (READ, 6, 0)], {("read", False, 4, 3)})
    # The write with FUA comes in the middle, at the end, and first.
    sent_together(client, [(WRITE, 8, 0), (WRITE, 9, FUA), (WRITE, 10, FUA), (WRITE, 11, 0)],
                  {("write", False, 8, 1), ("write", True, 9, 2), ("write", False, 11, 1)})
    sent_together(client, [(WRITE, 16, 0), (WRITE, 17, 0), (WRITE, 18, FUA)],
                  {("write", False, 16, 2), ("write", True, 18, 1)})
    sent_together(client, [(WRITE, 24, FUA), (WRITE, 25, 0)], {("write", True, 24, 1), ("write", False, 25, 1)})
    # A read after a write; writes with a block between them, in reverse order, and to the same
    # block.
    sent_together(client, [(WRITE, 32, 0), (READ, 33, 0)], {("write", False, 32, 1), ("read", False, 33, 1)})
    sent_together(client, [(WRITE, 40, 0), (WRITE, 42, 0), (WRITE, 41, 0)],
                  {("write", False, 40, 1), ("write", False, 42, 1), ("write", False, 41, 1)})
    sent_together(client, [(WRITE, 48, 0), (WRITE, 48, 0)], {("write", False, 48, 1)})
