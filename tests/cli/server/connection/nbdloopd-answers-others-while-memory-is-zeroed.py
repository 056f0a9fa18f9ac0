# SPDX-License-Identifier: BSD-3-Clause
"""A client that has 256 MiB of memory zeroed, and another image's client on the same loop.

    PROGRAM SOCKET PID IMAGE

Ends the server with two SIGTERMs before all is zeroed.
"""
import os
import signal
import sys

import nbd

from client import connect

sock, pid, image = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def allocated():
    return os.stat(image).st_blocks * 512


slow, fast = connect(sock, "slow"), connect(sock, "fast")
zero = slow.aio_zero(256 << 20, 0, flags=nbd.CMD_FLAG_NO_HOLE)
while allocated() < 1 << 20:
    slow.poll(5)
for i in range(5):
    fast.pread(4096, i * 4096)
connect(sock, "fast").shutdown()
slow.poll(0)
assert not slow.aio_command_completed(zero), "the other client had to wait for all of it"
os.kill(pid, signal.SIGTERM)
assert allocated() < 250 << 20, "too late to see that it ends before"
os.kill(pid, signal.SIGTERM)
