# SPDX-License-Identifier: BSD-3-Clause
"""A client whose adjacent writes fail together, and another one with a newer write.

    PROGRAM SOCKET CALLS there|gone|sync

CALLS: the file to which fail_write.c writes each attempt.  The first client stays, goes, or asks for FUA.
"""
import os
import sys
import time

from raw_nbd import FUA, READ, SIMPLE, WRITE, Raw, request
from waiting import wait_until

path, calls, case = sys.argv[1:]
BLOCK, COUNT = 4096, 4
LENGTH = BLOCK * COUNT


def writes(flags=0):
    return b"".join(request(SIMPLE, WRITE, n * BLOCK, BLOCK, flags, n) + b"o" * BLOCK for n in range(COUNT))


def expect_newer_data(when):
    second.request(READ, 0, LENGTH)
    _, error, data = second.reply(LENGTH)
    assert error == 0 and data == b"n" * LENGTH, "an older write has landed on a newer one" + when


def tried():
    """Lengths and offsets of the writes so far."""
    with open(calls) as f:
        return f.read().split("\n")[:-1]


# The connections are most likely on two loops; on a single loop the order must hold as well.
first, second = Raw(path, SIMPLE), Raw(path, SIMPLE)
if case == "sync":
    first.send(writes(FUA))
    assert [first.reply()[1] for _ in range(COUNT)] == [5] * COUNT
    assert tried() == [f"{LENGTH} 0"], tried()
    sys.exit()
first.send(writes())
wait_until("the first write is tried", lambda: os.path.exists(calls))
if case == "gone":
    first.socket.close()
second.send(request(SIMPLE, WRITE, 0, LENGTH) + b"n" * LENGTH)
if case == "there":
    assert [first.reply()[1] for _ in range(COUNT)] == [0] * COUNT
assert second.reply()[1] == 0
expect_newer_data("")
if case == "gone":
    time.sleep(0.5)
    assert f"{BLOCK} 0" not in tried(), "written again for nobody"
expect_newer_data(" later")
