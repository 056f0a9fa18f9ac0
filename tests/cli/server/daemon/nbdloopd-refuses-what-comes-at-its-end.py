# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a server that is told to end.

    PROGRAM URI IMAGE LOG PID drained|limited CONTROL

One client's reads take all of the memory, and another client's writes wait for it: more writes than the
server receives at once, or, in the case of the time limit, one write that is longer than the memory.
"""
import errno
import os
import signal
import sys

import nbd

from client import connect, noting, send_all, take, wait_for_end
from control import wait_for_requests

uri, image, log, pid, case, control = sys.argv[1:]
WRITES, SIZE = (28, 4096) if case == "drained" else (1, 3 << 20)


def written():
    with open(image, "rb") as f:
        return f.read(WRITES * SIZE)


reads, writes = [], []
writer, reader = connect(uri), connect(uri)
# The server looks for holes now, and finds none: a read for which it looks for holes takes its
# memory later.
reader.pread(1 << 20, 0)
for i in range(4):
    reader.aio_pread(nbd.Buffer(8 << 20), 16 << 20, completion=noting(reads, i))
send_all(reader)
wait_for_requests(control, 4)
# When the server ends, it closes an idle connection in the turn of the event loop that also tells
# all other connections.
idle = connect(uri)
idle.pread(512, 0)
for i in range(WRITES):
    writer.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"w" * SIZE)), i * SIZE, completion=noting(writes, i))
# The sockets have no room for all of the longer write.
if case == "drained":
    send_all(writer)
os.kill(int(pid), signal.SIGTERM)
wait_for_end(idle)
with open(log) as f:
    assert "ending" in f.read()
if case == "drained":
    # Sending a whole reply takes further turns.
    while not reads:
        reader.poll(1000)
    reader.aio_pread(nbd.Buffer(4096), 0, completion=noting(reads, "late read"))
    reader.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"late" * 1024)), 1 << 20, completion=noting(reads, "late write"))
    send_all(reader)
    take(reader)
    late = errno.ESHUTDOWN
    assert dict(reads) == {0: 0, 1: 0, 2: 0, 3: 0, "late read": late, "late write": late}, reads
    take(writer)
    assert sorted(writes) == [(i, 0) for i in range(WRITES)], writes
    assert written() == b"w" * WRITES * SIZE, "an answered write is not in the image"
    with open(image, "rb") as f:
        f.seek(1 << 20)
        assert f.read(4096) == bytes(4096), "a refused write was carried out"
else:
    take(writer)
    assert sorted(writes) == [(i, errno.ESHUTDOWN) for i in range(WRITES)], writes
for h in [writer] if case == "limited" else [reader, writer]:
    wait_for_end(h)
if case == "limited":
    assert written() == bytes(WRITES * SIZE), "a refused write was carried out"
