# SPDX-License-Identifier: BSD-3-Clause
"""Clients of an export whose clients have limits of their own; a client is an address of this machine.

    PROGRAM shares|both|returns|changes|connections PORT CONTROL

Each test has a server of its own, whose limits are in the .sh file.
"""
import socket
import sys
import time

import nbd

from control import Control
from waiting import FACTOR, TIMEOUT, wait_until

BLOCK = 4096
name, port, control_path = sys.argv[1:]
control = Control(control_path)


class Client:
    """A connection from an address, that keeps `depth` reads of a block in flight, or sends so many once."""

    def __init__(self, address, depth=0, once=False):
        self.done, self.missing, self.once = 0, depth, once
        self.socket = socket.socket()
        self.socket.bind((address, 0))
        self.socket.connect(("127.0.0.1", int(port)))
        self.h = nbd.NBD()
        self.h.set_export_name("disk")
        self.h.connect_socket(self.socket.detach())

    def completed(self, error):
        assert error.value == 0, error.value
        self.done += 1
        self.missing += not self.once
        return 1

    def turn(self, milliseconds=1):
        for _ in range(self.missing):
            self.h.aio_pread(nbd.Buffer(BLOCK), 0, self.completed)
        self.missing = 0
        self.h.poll(milliseconds)

    def end(self):
        while self.h.aio_in_flight():
            self.h.poll(1000)
        self.h.shutdown()


def turn_all(clients, until):
    while not until():
        for client in clients:
            client.turn()


def tests_shares():
    """100 operations per second for each: one client has two connections, another one has one."""
    clients = [Client("127.0.0.1", 2), Client("127.0.0.1", 64), Client("127.0.0.2", 16)]
    assert [c["counts_as"] for c in sorted(control.status()["connections"], key=lambda c: c["id"])] == \
        ["net:127.0.0.1", "net:127.0.0.1", "net:127.0.0.2"]
    start = time.monotonic()

    def is_even():
        wanted = sum(client.done for client in clients) + 100
        turn_all(clients, lambda: sum(client.done for client in clients) >= wanted)
        one, two, other = (client.done for client in clients)
        most = 100 * (time.monotonic() - start) + 5
        assert one + two <= most and other <= most, (one, two, other, most)
        # A busy machine may disturb that for a while, but not in the same way for long.
        return 0.4 <= one / (one + two) <= 0.6 and 0.4 <= other / (one + two + other) <= 0.6
    wait_until("all have got what is theirs", is_even, seconds=2 * TIMEOUT, pause=0,
               seen=lambda: [client.done for client in clients])


def tests_both():
    """60 operations per second for all, 100 for each."""
    clients = [Client("127.0.0.1", 8)]
    start = time.monotonic()
    turn_all(clients, lambda: clients[0].done >= 60)
    clients.append(Client("127.0.0.2", 8))
    turn_all(clients, lambda: clients[1].done >= 30)
    done, took = sum(client.done for client in clients), time.monotonic() - start
    assert done <= 60 * took + 5, (done, took)
    control.ask("set client-iops-limit=20,burst:1")
    # Requests that passed the old limit may still be in flight.
    before = clients[0].done + 8
    turn_all(clients, lambda: clients[0].done >= before)
    start, before = time.monotonic(), clients[0].done
    turn_all(clients, lambda: clients[0].done >= before + 20)
    assert time.monotonic() - start >= 17 / 20, "the smaller limit counts"


def tests_returns():
    """One operation per second, 50 at once: a client that comes back has no other burst, and another client has one."""
    client = Client("127.0.0.1", 40, once=True)
    turn_all([client], lambda: client.done == 40)
    start = time.monotonic()
    client.end()
    again, other = Client("127.0.0.1", 50, once=True), Client("127.0.0.2", 40, once=True)
    turn_all([again, other], lambda: other.done == 40)
    assert time.monotonic() - start < 30, "the other client has no burst"
    wait_until("it is held back", lambda: again.turn() or any(c["limited"] for c in control.status()["connections"]
                                                              if c["counts_as"] == "net:127.0.0.1"))
    assert again.done <= 12 + time.monotonic() - start, (again.done, time.monotonic() - start)


def tests_changes():
    """One operation per second, until that is changed."""
    client, other = Client("127.0.0.1", 100), Client("127.0.0.2", 1)
    wait_until("it is held back", lambda: client.turn() or control.export()["limited"] > 0)
    turn_all([other], lambda: other.done >= 1)
    # One that is held back may end.
    control.ask("disconnect net:127.0.0.2")
    answer = control.ask("set client-iops-limit=0 client-bandwidth-limit=1G")
    assert answer["client_limits"]["iops"]["both"] == 0, answer
    assert answer["client_limits"]["bandwidth"]["both"] == 1 << 30, answer
    assert answer["limits"]["bandwidth"]["both"] == 0, answer
    start = time.monotonic()
    turn_all([client], lambda: client.done >= 200)
    assert time.monotonic() - start < 100, "200 requests waited for the old limit"
    # Now all the time, with clients that come and go.
    for number in range(40 * FACTOR):
        control.ask(f"set client-iops-limit={number % 3 * 1000} iops-limit={number % 2 * 2000}")
        if number % 4 == 0:
            other = Client("127.0.0.2", 4)
        before = client.done
        turn_all([client, other], lambda: client.done > before)
        if number % 4 == 3:
            other.missing = 0
            other.end()
    try:
        control.ask("set client-iops-limit=fast")
    except AssertionError as refused:
        assert "client-iops-limit=fast: must be operations" in str(refused), refused
    else:
        raise AssertionError("a limit that is none was not refused")


def tests_connections():
    """One connection of each."""
    first = Client("127.0.0.1")
    try:
        Client("127.0.0.1")
    except nbd.Error as error:
        assert "client-connections-limit" in str(error) or "policy" in str(error), error
    else:
        raise AssertionError("a second connection was not refused")
    Client("127.0.0.2").end()
    control.ask("set client-connections-limit=2")
    Client("127.0.0.1").end()
    control.ask("set client-connections-limit=1")
    first.end()

    def connected():
        try:
            Client("127.0.0.1").end()
        except nbd.Error:
            return False
        return True
    wait_until("there is room again", connected)


globals()[f"tests_{name}"]()
