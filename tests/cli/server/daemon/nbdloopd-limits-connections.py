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
from raw_nbd import ACK, FIXED, STRUCTURED, Raw, option
from waiting import TIMEOUT, wait_until


def raw(uri):
    return Raw(uri.partition("socket=")[2])


def is_served(client):
    """Whether an option is not refused."""
    client.greeting()
    client.send(FIXED + option(STRUCTURED))
    return client.option_reply()[:2] == (STRUCTURED, ACK)


def limits_connections(uri, limit):
    limit = int(limit)
    one, two, three = connect(uri), connect(uri), connect(uri)
    for _ in range(50):
        with raw(uri) as fourth:
            assert not is_served(fourth), "a fourth connection was served"
    three.shutdown()

    def has_place():
        nonlocal mute, start
        mute = raw(uri)
        mute.socket.settimeout(limit + TIMEOUT)
        start = time.monotonic()
        try:
            return is_served(mute)
        except (EOFError, ConnectionError):
            return False

    mute = start = None
    wait_until("there is room for a client that then is mute", has_place)
    assert mute.until_end() == b"", "a mute client got more than an answer"
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
