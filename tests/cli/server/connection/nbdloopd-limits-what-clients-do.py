# SPDX-License-Identifier: BSD-3-Clause
"""Clients of an export with limits.

    PROGRAM rate|bandwidth|fair|changes|large|rested|connections SOCKET CONTROL
    PROGRAM ends|drains SOCKET CONTROL IMAGE

Each test has a server of its own, whose limits are in the .sh file.
"""
import os
import signal
import sys
import time

import nbd

from client import connect, send_all, wait_for_end
from control import Control
from waiting import FACTOR, TIMEOUT, wait_until

BLOCK = 4096
HELD = 40     # writes of a block, which a socket's buffers hold
name, path, control_path, *more = sys.argv[1:]
control = Control(control_path)


class Client:
    """Keeps `depth` reads of a block in flight, or sends `depth` requests once."""

    def __init__(self):
        self.h = connect(path, "disk")
        self.done = 0
        self.lasting = self.ending = False

    def send_one(self, write=None):
        def completion(error):
            assert self.ending or error.value == 0, error.value
            self.done += error.value == 0
            if self.lasting:
                self.missing += 1
            return 1
        if write is None:
            self.h.aio_pread(nbd.Buffer(BLOCK), 0, completion)
        else:
            self.h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([write] * BLOCK)), write * BLOCK, completion)

    def keep(self, depth):
        self.lasting, self.missing = True, depth

    def turn(self, milliseconds=10):
        while self.lasting and self.missing:
            self.missing -= 1
            self.send_one()
        self.h.poll(milliseconds)

    def wait_for(self, count):
        def have():
            self.turn()
            return self.done >= count
        wait_until(f"{count} requests are done", have, pause=0, seen=lambda: self.done)

    def has_held(self):
        """Some of its requests, sent before, are held back."""
        wait_until("the server holds requests back",
                   lambda: any(connection["limited"] for connection in control.status()["connections"]))
        wait_until("and says how many", lambda: control.export()["limited_now"] == 1)


def holder(writes=0):
    """A client that may do one request per second, and has sent more than a hundred; or so many writes."""
    client = Client()
    client.begun = time.monotonic()
    for number in range(writes or 200):
        client.send_one(number + 1 if writes else None)
    send_all(client.h)
    client.wait_for(1)
    client.has_held()
    assert client.done <= most_done(client), client.done
    return client


def most_done(client):
    """As many as may be done by now."""
    return 2 + int(time.monotonic() - client.begun)


def tests_rate():
    """400 operations per second, 20 at once."""
    client = Client()
    start = time.monotonic()
    client.keep(8)
    client.wait_for(220)
    took = time.monotonic() - start
    assert took >= (220 - 20) / 400 - 0.01, took
    export = control.export()
    assert export["limited"] > 0 and export["limited_us"] > 50_000, export
    # This wait is no latency.
    assert sum(export["latency_us"]["read"]) >= 220, export


def tests_bandwidth():
    """2 MiB per second of writes, 64 KiB at once; reads are not limited."""
    h = connect(path, "disk")
    start = time.monotonic()
    for number in range(16):
        h.pwrite(bytes([number]) * (64 << 10), number * (64 << 10))
        for _ in range(8):
            h.pread(4 << 20, 0)
    took = time.monotonic() - start
    assert took >= 15 / 32 - 0.01, took
    assert took < TIMEOUT, took
    assert all(h.pread(64 << 10, number * (64 << 10)) == bytes([number]) * (64 << 10) for number in range(16))
    h.trim(4 << 20, 0)
    h.zero(4 << 20, 0)
    assert time.monotonic() - start < 2 * TIMEOUT, "trim and zero transport no bytes"


def share_evenly(clients):
    """Each of two clients that want all gets 40 % to 60 % of what both have got since now: soon, or in the long run."""
    before = [client.done for client in clients]

    def counts():
        return [client.done - count for client, count in zip(clients, before)]

    def is_even():
        # A thread of the server that a busy machine lets wait loses its turns meanwhile.  It is
        # not always the same thread: a share that is uneven for that reason evens out, and one that
        # is uneven by design does not.
        wanted = sum(counts()) + 60
        while sum(counts()) < wanted:
            for client in clients:
                client.turn(1)
        return 0.4 <= counts()[0] / sum(counts()) <= 0.6
    wait_until("both have got their half", is_even, seconds=2 * TIMEOUT, pause=0, seen=counts)


def tests_fair():
    """100 operations per second: half for a client with few requests beside one with many."""
    clients = [Client(), Client()]
    assert {connection["thread"] for connection in control.status()["connections"]} == {0, 1}
    for client, depth in zip(clients, (2, 64)):
        client.keep(depth)
    share_evenly(clients)


def tests_changes():
    """One operation per second, until another limit is set."""
    client = holder()
    start = time.monotonic()
    # Neither a flush nor the end of another client is limited.
    other = connect(path, "disk")
    for _ in range(10):
        other.flush()
    other.shutdown()
    assert time.monotonic() - start < 10 * FACTOR, "flushes are limited"
    answer = control.ask("set iops-limit=0 bandwidth-limit=1G,burst:2G")
    assert answer["limits"]["iops"]["both"] == 0, answer
    assert answer["limits"]["bandwidth"] == {"both": 1 << 30, "read": 0, "write": 0, "burst": 2 << 30}, answer
    client.wait_for(200)
    assert time.monotonic() - start < 100, "200 requests waited for the old limit"
    assert not any(connection["limited"] for connection in control.status()["connections"])
    assert control.export()["limited_now"] == 0, control.export()
    # And a client that was not limited is, from then on, without a burst.
    control.ask("set bandwidth-limit=0 iops-limit=read:1,burst:1000")
    before = client.done
    client.keep(100)
    client.turn()
    client.has_held()
    assert client.done - before < 50, client.done - before


def tests_large():
    """2 MiB per second: a read of 1 MiB comes to its end, though limits are changed all the time."""
    done = []
    h = connect(path, "disk")
    h.aio_pread(nbd.Buffer(1 << 20), 0, lambda error: done.append(error.value) or 1)
    changes = ["bandwidth-limit=2M,burst:9k", "connections-limit=5", "bandwidth-limit=2M,burst:8k", "connections-limit=6"]

    def is_done():
        h.poll(10)
        changes.append(changes.pop(0))
        control.ask(f"set {changes[-1]}")
        return done
    wait_until("a large read has what it paid for", is_done, pause=0)
    assert done == [0], done
    # It is one request, however many times it has waited.
    assert control.export()["limited"] == 1, control.export()
    # This one's data goes into the server's page cache, not to the client.
    h.cache(4 << 20, 0)
    assert control.export()["limited"] == 1, control.export()


def tests_rested():
    """One operation per second, 100 at once: another limit does not take the burst away."""
    h = connect(path, "disk")
    h.pread(BLOCK, 0)
    control.ask("set connections-limit=5")
    for _ in range(3):
        h.pread(BLOCK, 0)
    assert control.export()["limited"] == 0, control.export()


def tests_ends():
    """One operation per second: a held-back write of a client that is gone is not carried out."""
    client = holder()
    client.ending = True
    assert control.ask("disconnect any")["disconnected"] == 1
    wait_for_end(client.h)
    client = holder(writes=HELD)
    client.ending = True
    # Longer than a client is taken to be there after it has sent something.
    time.sleep(0.2)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, client.h.aio_get_fd())    # closes the socket
    most = most_done(client)
    control.ask("set iops-limit=0")
    wait_until("its connection has ended", lambda: control.status()["connections"] == [])
    with open(more[0], "rb") as image:
        blocks = [image.read(BLOCK)[0] for _ in range(HELD + 1)]
    assert len(blocks) - blocks.count(0) <= most < HELD, (most, blocks)


def tests_drains():
    """One operation per second: all that was sent is carried out at the server's end, at once."""
    client = holder(writes=HELD)
    os.kill(control.status()["pid"], signal.SIGTERM)
    client.wait_for(HELD)
    wait_for_end(client.h)
    with open(more[0], "rb") as image:
        blocks = [image.read(BLOCK)[0] for _ in range(HELD + 1)]
    assert blocks == list(range(HELD + 1)), blocks


def tests_connections():
    """One connection."""
    first = connect(path, "disk")
    try:
        connect(path, "disk")
    except nbd.Error as error:
        assert "connections-limit" in str(error) or "policy" in str(error), error
    else:
        raise AssertionError("a second connection was not refused")
    control.ask("set connections-limit=2")
    second = connect(path, "disk")
    control.ask("set connections-limit=1")
    assert first.pread(512, 0) == second.pread(512, 0), "a lower limit ends no connection"
    second.shutdown()
    first.shutdown()

    def connected():
        try:
            connect(path, "disk")
        except nbd.Error:
            return False
        return True

    wait_until("there is room again", connected)


globals()[f"tests_{name}"]()
