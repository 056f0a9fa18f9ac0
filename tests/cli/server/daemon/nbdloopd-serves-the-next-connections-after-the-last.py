# SPDX-License-Identifier: BSD-3-Clause
"""Starts a server that gets its connections over a socket, and passes some, one after the other.

    PROGRAM GATE CONTROL COMMAND...

While the file GATE exists, calls for the image wait, and GATE.reached is made.
"""
import os
import select
import socket
import subprocess
import sys

import nbd

from client import send_all
from control import status
from waiting import TIMEOUT, wait_until

gate, control, *command = sys.argv[1:]
OLD, NEW = bytearray(b"o" * 4096), bytearray(b"n" * 4096)

supply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
supply.settimeout(TIMEOUT)
server = subprocess.Popen([*command[:-1], f"--fd-from={theirs.fileno()}", command[-1]], pass_fds=[theirs.fileno()])
theirs.close()


def give(count):
    """Passes `count` connections in one message: our ends."""
    pairs = [socket.socketpair() for _ in range(count)]
    socket.send_fds(supply, [b"sockets"], [their.fileno() for _, their in pairs])
    for _, their in pairs:
        their.close()
    return [ours for ours, _ in pairs]


def client(ours):
    h = nbd.NBD()
    h.connect_socket(os.dup(ours.fileno()))
    return h


def lose(*all_ours):
    """As the kernel does."""
    for ours in all_ours:
        ours.shutdown(socket.SHUT_RDWR)
        ours.close()


def expect_idle():
    assert supply.recv(100) == b"idle"


# Several at once; the server tells when the last of them has ended.
first = give(2)
clients = [client(ours) for ours in first]
clients[0].pwrite(OLD, 0)
assert clients[1].pread(4096, 0) == OLD
lose(first[0])
wait_until("one connection has ended", lambda: len(status(control)["connections"]) == 1)
assert not select.select([supply], [], [], 0)[0], "the server calls itself idle with a connection"
assert clients[1].pread(4096, 0) == OLD
lose(first[1])
expect_idle()

# A descriptor of no use is as good as lost.
with open("/dev/null") as nothing:
    socket.send_fds(supply, [b"sockets"], [nothing.fileno()])
expect_idle()

# A write is in flight when its connection is lost.
slow, = give(1)
h = client(slow)
assert h.pread(4096, 0) == OLD
open(gate, "w").close()
h.aio_pwrite(nbd.Buffer.from_bytearray(OLD), 8192)
send_all(h)
wait_until("the write is in flight", lambda: os.path.exists(gate + ".reached"))
lose(slow)
following, = give(1)
assert not select.select([supply, following], [], [], 0.5)[0], "the next client is served before that write has ended"
assert len(status(control)["connections"]) == 1
os.unlink(gate)
expect_idle()
h = client(following)
assert h.pread(4096, 8192) == OLD, "the write has not ended before the next client is served"
h.pwrite(NEW, 8192)
assert h.pread(4096, 8192) == NEW

# It serves on when the program has gone, and ends with its last client.
supply.close()
h.pwrite(NEW, 0)
assert h.pread(4096, 0) == NEW
assert server.poll() is None
lose(following)
assert server.wait(TIMEOUT) == 0
