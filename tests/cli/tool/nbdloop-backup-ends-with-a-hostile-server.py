# SPDX-License-Identifier: BSD-3-Clause
"""A server whose map has extents of one byte: nbdloop-backup-ends-with-a-hostile-server.py SOCKET SIZE ENTRIES

ENTRIES: how many of them each answer has; every second one is a hole.  A read gets zeroes."""
import socket
import struct
import sys

SIZE, ENTRIES = int(sys.argv[2]), int(sys.argv[3])
REPLY, STRUCTURED_REPLY, GO, SET_META_CONTEXT, DISC, READ, BLOCK_STATUS = 0x3E889045565A9, 8, 7, 10, 2, 0, 7


def receive(client, length):
    data = b""
    while len(data) < length:
        piece = client.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def negotiate(client):
    client.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    receive(client, 4)
    while True:
        _, option, length = struct.unpack(">8sII", receive(client, 16))
        receive(client, length)
        if option == GO:
            info = struct.pack(">HQH", 0, SIZE, 1)
            client.sendall(struct.pack(">QIII", REPLY, option, 3, len(info)) + info)
        if option == SET_META_CONTEXT:
            context = struct.pack(">I", 1) + b"base:allocation"
            client.sendall(struct.pack(">QIII", REPLY, option, 4, len(context)) + context)
        known = option in (GO, STRUCTURED_REPLY, SET_META_CONTEXT)
        client.sendall(struct.pack(">QIII", REPLY, option, 1 if known else 0x80000001, 0))
        if option == GO:
            return


def serve(client):
    negotiate(client)
    while True:
        _, _, kind, cookie, offset, length = struct.unpack(">IHHQQI", receive(client, 28))
        if kind == BLOCK_STATUS:
            chunk = 5
            data = struct.pack(">I", 1) + b"".join(
                struct.pack(">II", 1, 3 * (n % 2)) for n in range(min(ENTRIES, length)))
        elif kind == READ:
            chunk, data = 1, struct.pack(">Q", offset) + bytes(length)
        else:
            return
        client.sendall(struct.pack(">IHHQI", 0x668E33EF, 1, chunk, cookie, len(data)) + data)


with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        peer, _ = listener.accept()
        with peer:
            try:
                serve(peer)
            except (EOFError, ConnectionError):
                pass
