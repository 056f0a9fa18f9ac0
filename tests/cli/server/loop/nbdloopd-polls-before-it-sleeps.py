# SPDX-License-Identifier: BSD-3-Clause
"""How often the event loop sleeps under a client's requests, and what the idle server takes.

    PROGRAM URI CONTROL PID OPTIONS
"""
import sys
import time

from client import connect
from control import status
from process import ticks

uri, control, pid, options = sys.argv[1:]
READS = 1000


def loop():
    told = status(control)
    assert told["poll_max_us"] == (100000 if options else 0)
    (one,) = told["loops"]
    return one


h = connect(uri)
before = loop()
for _ in range(READS):
    h.pread(512, 0)
after = loop()
slept, found = after["sleeps"] - before["sleeps"], after["polls"] - before["polls"]
if options:
    assert found >= READS and slept < READS // 10, (before, after)
else:
    assert found == 0 and slept >= READS, (before, after)
    assert after["poll_us"] == 0

time.sleep(1)
begin = ticks(pid)
time.sleep(2)
assert ticks(pid) - begin < 20, "it is busy while nothing comes"
# The next status shows that this event came late.
loop()
time.sleep(0.5)
assert loop()["poll_us"] == 0
