# SPDX-License-Identifier: BSD-3-Clause
"""Clients that write, say goodbye and close at once.

    PROGRAM SOCKET|PORT IMAGE
"""
import sys

from raw_nbd import DISC, SIMPLE, WRITE, Raw, request
from waiting import wait_until

path, image = sys.argv[1:]
SIZE, CLIENTS, MANY = 4096, 100, 1000


def content(client, i):
    return (b"%d.%d " % (client, i)).ljust(SIZE, b"x")


def leave(client, first, writes):
    """`writes` blocks from `first`, every second one."""
    connection = Raw(path, SIMPLE)
    connection.send(b"".join(request(SIMPLE, WRITE, (first + 2 * i) * SIZE, SIZE) + content(client, i) for i in range(writes)) +
                    request(SIMPLE, DISC))
    connection.socket.close()

    def missing():
        with open(image, "rb") as f:
            f.seek(first * SIZE)
            data = f.read((2 * writes - 1) * SIZE)
        return [i for i in range(writes) if data[2 * i * SIZE:(2 * i + 1) * SIZE] != content(client, i)]
    wait_until(f"no write of client {client} is missing", lambda: not missing(), pause=0.001, seen=missing)


for client in range(CLIENTS):
    leave(client, 2 * client, 1)
# Over TCP, close() itself discards data that is still to be sent when a reply was not read.
if not path.isdigit():
    for client in range(3):
        leave(client, 1000, MANY)
