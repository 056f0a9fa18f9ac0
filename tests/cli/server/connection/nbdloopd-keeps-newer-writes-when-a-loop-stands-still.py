# SPDX-License-Identifier: BSD-3-Clause
"""A client whose event loop strace stops, and which repeats its write through another loop.

    PROGRAM SOCKET|PORT PID CALL:WHEN STRACE-OUTPUT GOODBYE

GOODBYE (yes or no): it sends NBD_CMD_DISC before it closes.  The status is TOO_LATE if the loop ran again
before the client had written.
"""
import subprocess
import sys
import time

from process import is_traced, waits
from raw_nbd import DISC, FLUSH, FUA, READ, SIMPLE, WRITE, Raw, request
from waiting import wait_until

path, pid, call, calls, goodbye = sys.argv[1:]
SIZE = 4096
STANDS_STILL = 2  # seconds
TOO_LATE = 3
OLD, NEW = b"o" * SIZE, b"n" * SIZE


def ask(client, kind, offset=0, flags=0, data=b"", length=None):
    length = len(data) if length is None else length
    client.send(request(SIMPLE, kind, offset, length, flags) + data)
    _, error, answer = client.reply(length if kind == READ else 0)
    assert error == 0, error
    return answer


def loop_of(client):
    """The thread that serves it."""
    before = waits(pid)
    for _ in range(200):
        ask(client, READ, 1 << 20, length=512)
    after = waits(pid)
    return max((after[thread] - before.get(thread, 0), thread) for thread in after if thread != pid)[1]


impatient = Raw(path, SIMPLE)
slow = loop_of(impatient)
others = []
while not others or loop_of(others[-1]) == slow:
    assert len(others) < 20, "all connections are on one loop"
    others.append(Raw(path, SIMPLE))
other = others[-1]
begun = time.monotonic()
strace = subprocess.Popen(["strace", "-qq", "-o", calls, "-e", f"inject={call}={STANDS_STILL}s:when=1", "-p", slow])
wait_until("strace has the loop", lambda: is_traced(pid, slow))
time.sleep(0.2)
impatient.send(request(SIMPLE, WRITE, 0, SIZE, 0) + OLD + (request(SIMPLE, DISC) if goodbye == "yes" else b""))
time.sleep(0.2)
impatient.socket.close()
ask(other, WRITE, data=OLD)
ask(other, WRITE, data=NEW, flags=FUA)
assert ask(other, READ, length=SIZE) == NEW
# On a busy machine the loop may have resumed before the client wrote.
in_time = time.monotonic() < begun + STANDS_STILL
# Wait until the loop has resumed, and answers its connections again.
late = [Raw(path, SIMPLE) for _ in range(4)]
for client in late:
    ask(client, FLUSH)
time.sleep(0.3)
strace.terminate()
strace.wait()
assert ask(other, READ, length=SIZE) == NEW, "an older write has landed on a newer one"
sys.exit(0 if in_time else TOO_LATE)
