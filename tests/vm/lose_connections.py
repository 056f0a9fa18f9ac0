# SPDX-License-Identifier: BSD-3-Clause
"""lose_connections.py PID COUNT: shuts so many connections of a server down, as the kernel does with one that it gives up."""
import ctypes
import os
import socket
import sys

PIDFD_GETFD = 438


def connected(fd):
    """The server's descriptor, if it is a connected stream socket; or None."""
    if not os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
        return None
    s = socket.socket(fileno=ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, fd, 0))
    try:
        s.getpeername()
    except OSError:
        return None
    return s if s.type == socket.SOCK_STREAM else None


pid, count = map(int, sys.argv[1:])
process = os.pidfd_open(pid)
found = [s for s in map(connected, sorted(map(int, os.listdir(f"/proc/{pid}/fd")))) if s]
assert len(found) >= count, found
for s in found[:count]:
    s.shutdown(socket.SHUT_RDWR)
