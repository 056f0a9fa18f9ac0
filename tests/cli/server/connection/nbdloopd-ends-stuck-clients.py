# SPDX-License-Identifier: BSD-3-Clause
"""Clients that hold all the memory: paused, deaf, in the middle of a write, slow.

    PROGRAM SOCKET PORT CONTROL STUCK-LIMIT
"""
import concurrent.futures
import sys
import time

from control import wait_for_requests
from raw_nbd import READ, SIMPLE, WRITE, Raw, request

MIB = 1 << 20
path, port, control, limit = *sys.argv[1:4], int(sys.argv[4])


def wait_until_taken():
    """What the client that connected last has asked for; it has all the memory then."""
    wait_for_requests(control, 1)


background = concurrent.futures.ThreadPoolExecutor()


def reads_in_background():
    """A client beside the other one, which reads more than it gets while that has all the memory."""
    def run():
        with Raw(path, SIMPLE) as client:
            client.request(READ, 0, 8 * MIB)
            assert client.reply(8 * MIB) == (1, 0, bytes(8 * MIB))
    return background.submit(run)


# No other client waits.
with Raw(path, SIMPLE) as paused:
    paused.request(READ, 0, 32 * MIB)
    wait_until_taken()
    time.sleep(2 * limit)
    assert paused.reply(32 * MIB) == (1, 0, bytes(32 * MIB))

# Another client waits.
with Raw(path, SIMPLE) as deaf:
    deaf.request(READ, 0, 32 * MIB)
    wait_until_taken()
    reads_in_background().result()
    assert len(deaf.until_end()) < 32 * MIB

with Raw(path, SIMPLE) as writer:
    writer.send(request(SIMPLE, WRITE, 0, 32 * MIB) + bytes(MIB))
    wait_until_taken()
    reads_in_background().result()
    assert writer.until_end() == b""

# This client is slow, but takes its reply.
with Raw(port, SIMPLE) as slow:
    slow.request(READ, 0, 32 * MIB)
    wait_until_taken()
    other = reads_in_background()
    slow.receive(16)
    for _ in range(24):
        slow.receive(MIB)
        time.sleep(limit / 8)
    assert slow.receive(8 * MIB) == bytes(8 * MIB)
    other.result()
