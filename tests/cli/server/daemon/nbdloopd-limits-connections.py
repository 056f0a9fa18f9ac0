# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a server that has a limit for them.

    PROGRAM connections URI HANDSHAKE-LIMIT     of three connections
    PROGRAM descriptors URI PID                 of descriptors
"""
import sys
import time

import nbd

from client import connect
from process import ticks
from raw_nbd import Raw
from waiting import TIMEOUT, wait_until


def raw(uri):
    return Raw(uri.partition("socket=")[2])


def limits_connections(uri, limit):
    limit = int(limit)
    one, two, three = connect(uri), connect(uri), connect(uri)
    for _ in range(50):
        with raw(uri) as fourth:
            assert fourth.until_end() == b"", "a fourth connection was served"
    three.shutdown()

    def is_greeted():
        nonlocal mute, start
        mute = raw(uri)
        mute.socket.settimeout(limit + TIMEOUT)
        start = time.monotonic()
        try:
            return mute.greeting() is None
        except (EOFError, ConnectionError):
            return False

    mute = start = None
    wait_until("there is room for a mute client", is_greeted)
    assert mute.until_end() == b"", "the mute client got more than a greeting"
    took = time.monotonic() - start
    assert took > limit / 2, took

    # There is room again after a moment, and a client that has negotiated may be idle.
    clients = [one, two]

    def connected():
        try:
            clients.append(connect(uri))
        except nbd.Error:
            return False
        return True

    wait_until("there is room again", connected)
    for h in clients:
        assert h.pread(512, 0) == bytes(512)


def waits_for_descriptors(uri, pid):
    clients = [raw(uri) for _ in range(60)]
    time.sleep(0.5)
    before = ticks(pid)
    time.sleep(2)
    assert ticks(pid) - before < 40, "it is busy doing nothing"
    for client in clients:
        client.socket.close()
    assert connect(uri).get_size() == 1 << 20


{"connections": limits_connections, "descriptors": waits_for_descriptors}[sys.argv[1]](*sys.argv[2:])
