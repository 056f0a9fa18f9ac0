# SPDX-License-Identifier: BSD-3-Clause
"""A client whose request waits for the file system, and another image's client on the same loop.

    PROGRAM SOCKET GATE FAST-FILE SLOW-FILE CONTROL CALL...

While the file GATE exists, calls for SLOW-FILE wait, and GATE.reached names the call that does.  Each CALL
must have waited for one kind of request.
"""
import os
import sys

import nbd

from client import connect, send_all
from control import status
from waiting import wait_until

KIB, MIB = 1 << 10, 1 << 20
sock, gate, fast_file, slow_file, control = sys.argv[1:6]
expected = set(sys.argv[6:])


def wait(what, true):
    def polled():
        fast.poll(0)
        slow.poll(5)
        return true()
    wait_until(what, polled, pause=0)


def extents(h):
    return h.aio_block_status(8 * MIB, 0, lambda *args: 0)


def large_read(h):
    return h.aio_pread(nbd.Buffer(MIB), 6 * MIB)


def read_past_end(h):
    """The log says where the file ends now."""
    os.truncate(slow_file, 15 * MIB)
    return h.aio_pread(nbd.Buffer(4096), 15 * MIB + 4096)


def completed(cookie):
    try:
        return slow.aio_command_completed(cookie)
    except nbd.Error as error:
        assert error.errno == "EIO", error
        return True


kinds = {
    "status": extents,
    "large read": large_read,
    "another large read": large_read,
    "cache": lambda h: h.aio_cache(MIB, 0),
    "trim": lambda h: h.aio_trim(MIB, 9 * MIB),
    "zero": lambda h: h.aio_zero(MIB, 10 * MIB),
    "zero without holes": lambda h: h.aio_zero(MIB, 11 * MIB, flags=nbd.CMD_FLAG_NO_HOLE),
    "write": lambda h: h.aio_pwrite(nbd.Buffer.from_bytearray(b"w" * 4096), 12 * MIB),
    "FUA write": lambda h: h.aio_pwrite(nbd.Buffer.from_bytearray(b"f" * 4096), 13 * MIB, flags=nbd.CMD_FLAG_FUA),
    "read": lambda h: h.aio_pread(nbd.Buffer(4096), 1 * MIB),
    "flush": lambda h: h.aio_flush(),
    "read past the end": read_past_end,
}

with open(fast_file, "rb") as f:
    content = f.read()
fast, slow = (connect(sock, name, allocation=True) for name in ("fast", "slow"))
reached = gate + ".reached"
waited = set()
for name, begin in kinds.items():
    print(name, flush=True)
    open(gate, "w").close()
    cookie = begin(slow)
    wait("the call comes", lambda: os.path.exists(reached) or completed(cookie))
    if not os.path.exists(reached):
        # The kernel's own threads make these calls, or no call that could wait is made.
        os.unlink(gate)
        continue
    wait("the name of the call", lambda: os.path.getsize(reached) > 0)
    with open(reached) as f:
        waited.add(f.read())
    # A connection that closes in the meantime must not block the loop either.
    gone = connect(sock, "slow", allocation=True)
    begin(gone)
    send_all(gone)
    del gone
    for i in range(50):
        at = i * 64 * KIB
        buffer = nbd.Buffer(4096)
        c = fast.aio_pread(buffer, at)
        wait("the other image's client is answered", lambda: fast.aio_command_completed(c))
        assert buffer.to_bytearray() == content[at:at + 4096]
    connect(sock, "fast").shutdown()
    assert not completed(cookie), "it is done before it could be"
    os.unlink(gate)
    wait("the slow one's own answer", lambda: completed(cookie))
    # Otherwise the gate would see the call of the closed connection.
    wait("that connection ends", lambda: len(status(control)["connections"]) == 2)
    os.unlink(reached)
assert expected <= waited, waited
assert slow.pread(4096, 12 * MIB) == b"w" * 4096
assert slow.pread(4096, 13 * MIB) == b"f" * 4096
assert slow.pread(512, MIB)[:4] == b"data"
