# SPDX-License-Identifier: BSD-3-Clause
"""Clients that hold the memory for which others wait, and send a little now and then.

    PROGRAM replies SOCKET|PORT                they take no replies
    PROGRAM data SOCKET|PORT CONTROL LOG   they send little of their writes' data
"""
import itertools
import sys
import threading
import time

from control import wait_for_requests
from raw_nbd import FLUSH, READ, SIMPLE, WRITE, Raw, request

MIB = 1 << 20


def trickle(client, pieces, pause, over):
    """Sends one piece after the other, as long as it is connected.
"""
    try:
        for piece in pieces:
            if over.wait(pause):
                return
            client.send(piece)
    except ConnectionError:
        pass


def begin(client, pieces, pause, over):
    thread = threading.Thread(target=trickle, args=(client, pieces, pause, over))
    thread.start()
    return thread


def read_much(client):
    """More than there is while the others hold the memory."""
    client.request(READ, 0, 8 * MIB)
    assert client.reply(8 * MIB) == (1, 0, bytes(8 * MIB))


def is_ended(where, said):
    deaf = Raw(where, SIMPLE)
    deaf.request(READ, 0, 32 * MIB)
    time.sleep(0.5)
    over = threading.Event()
    thread = begin(deaf, [said[n:n + 1] for n in range(len(said))], 0.3, over)
    try:
        with Raw(where, SIMPLE) as other:
            read_much(other)
    finally:
        over.set()
        thread.join()
        deaf.socket.close()


def take_no_replies(where):
    is_ended(where, request(SIMPLE, FLUSH) * 10)
    is_ended(where, (request(SIMPLE, WRITE, 0, 4) + b"data") * 10)


def send_little_data(where, control, log):
    def ended():
        with open(log) as lines:
            return sum("disconnected" in line for line in lines)

    def begins_to_write():
        client = Raw(where, SIMPLE)
        client.send(request(SIMPLE, WRITE, 0, 32 * MIB) + bytes(4096))
        wait_for_requests(control, 1)
        return client

    # The server keeps a client on a slow line.  (Over a unix socket the kernel may report progress
    # only when all data has arrived.)
    paces = [(1, 0.2)] * 3 + [(64 << 10, 0.05) if where.isdigit() else (1, 0.2)]
    stuck = paces.count((1, 0.2))
    before = ended()
    clients = [begins_to_write() for _ in paces]
    over = threading.Event()
    threads = [begin(client, itertools.repeat(bytes(length)), pause, over)
               for client, (length, pause) in zip(clients, paces)]
    with Raw(where, SIMPLE) as honest:
        honest.send(request(SIMPLE, WRITE, 0, 5 * MIB // 4) + bytes(5 * MIB // 4))
        assert honest.reply() == (1, 0, b"")
        assert ended() == before, "the largest request of the kernel's client had to wait"
        read_much(honest)
    over.set()
    for thread in threads:
        thread.join()
    assert ended() == before + stuck, f"{ended() - before} were disconnected, not {stuck}"
    for client in clients:
        client.socket.close()


{"replies": take_no_replies, "data": send_little_data}[sys.argv[1]](*sys.argv[2:])
