# SPDX-License-Identifier: BSD-3-Clause
"""Writes and reads requests of all sizes, and looks at the counter.

    PROGRAM SOCKET CONTROL ENGINE
"""
import random
import sys

from client import connect
from control import status

path, control_path, engine = sys.argv[1:]
h = connect(path, "")
ROUNDS = 6
random_bytes = random.Random(1).randbytes


def export():
    (one,) = status(control_path)["exports"]  # a connection may not wait for 5 seconds
    return one


def registered():
    return export()["counters"]["registered"]


def exchange(length, offset):
    """Returns how many of the requests were in registered memory."""
    before = registered()
    for _ in range(ROUNDS):
        data = random_bytes(length)
        h.pwrite(data, offset)
        assert h.pread(length, offset) == data, (length, offset)
    return registered() - before


uses_ring = engine == "io_uring"
assert export()["engine"] == engine, export()["engine"]
for shift in range(12, 26):
    for length in (1 << shift, (1 << shift) * 3 // 4 // 4096 * 4096):
        if length == 0:
            continue
        count = exchange(length, 4096)
        # The first request of a size has memory that is not registered yet; its second one may
        # have another piece of it.
        least, most = (2 * ROUNDS - 3, 2 * ROUNDS) if uses_ring else (0, 0)
        assert least <= count <= most, (length, count)
# Bounce buffers, which are registered before their first use.
h.set_strict_mode(0)
count = exchange(70000, 4099)
assert count == (2 * ROUNDS if uses_ring else 0), count
assert export()["registered_buffers"] == uses_ring
assert export()["registered_buffers_reason"] == ""
h.shutdown()
