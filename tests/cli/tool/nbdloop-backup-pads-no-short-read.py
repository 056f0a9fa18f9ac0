# SPDX-License-Identifier: BSD-3-Clause
"""A server that answers each read with success and without data: nbdloop-backup-pads-no-short-read.py SOCKET"""
import socket
import struct
import sys

SIZE = 1 << 20
REPLY, STRUCTURED_REPLY, GO, DISC = 0x3E889045565A9, 8, 7, 2


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
        known = option in (GO, STRUCTURED_REPLY)
        client.sendall(struct.pack(">QIII", REPLY, option, 1 if known else 0x80000001, 0))
        if option == GO:
            return


def serve(client):
    negotiate(client)
    while True:
        _, _, kind, cookie, _, _ = struct.unpack(">IHHQQI", receive(client, 28))
        if kind == DISC:
            return
        client.sendall(struct.pack(">IHHQI", 0x668E33EF, 1, 0, cookie, 0))


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
