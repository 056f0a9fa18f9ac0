# SPDX-License-Identifier: BSD-3-Clause
"""A client announces a payload of 32 MiB and vanishes; another one writes as much.

    PROGRAM SOCKET CONTROL ENGINE
"""
import sys

from client import connect
from control import status
from raw_nbd import SIMPLE, WRITE, Raw
from waiting import wait_until

path, control, engine = sys.argv[1:]
LENGTH = 32 << 20


def received():
    return [connection["requests"] for connection in status(control)["connections"]]


def registered():
    (export,) = status(control)["exports"]
    return export["counters"]["registered"]


with Raw(path, SIMPLE) as gone:
    gone.request(WRITE, 0, LENGTH)
    gone.send(bytes(100000))
    wait_until("the request has its memory", lambda: received() == [1])
wait_until("the connection ends", lambda: received() == [])
h = connect(path, "")
# The next request gets the memory that the client has left.
h.pwrite(bytes(LENGTH), 0)
assert registered() == 0, "memory without pages was registered"
# Each of these may come before the server has registered what the one before it has filled.
for _ in range(6):
    h.pwrite(bytes(LENGTH), 0)
assert (registered() > 0) == (engine == "io_uring"), "memory that was filled is not registered"
h.shutdown()
