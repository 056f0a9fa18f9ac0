# SPDX-License-Identifier: BSD-3-Clause
"""dying_server.py SIZE: in place of nbdloopd, with the socket over which nbdloop passes connections (descriptor 3),
and the pipe for events (4): offers an export of SIZE bytes, and dies of the first request."""
import os
import signal
import socket
import struct
import sys

OPTION_GO, REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 7, 1, 3, (1 << 31) + 1
REPLY_MAGIC = 0x3e889045565a9


def read(connection, count):
    data = connection.recv(count, socket.MSG_WAITALL) if count else b""
    if len(data) < count:
        sys.exit("the client has gone")
    return data


def answer(connection, option, kind, data=b""):
    connection.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)


def negotiate(connection, size):
    connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    read(connection, 4)
    while True:
        _, option, length = struct.unpack(">QII", read(connection, 16))
        read(connection, length)
        if option == OPTION_GO:
            answer(connection, option, REPLY_INFO, struct.pack(">HQH", 0, size, 1))
            answer(connection, option, REPLY_ACK)
            return
        answer(connection, option, REPLY_UNSUPPORTED)


os.write(4, b'{"event":"ready"}\n')
supply = socket.socket(fileno=3)
_, (descriptor,), _, _ = socket.recv_fds(supply, 100, 1)
with socket.socket(fileno=descriptor) as client:
    negotiate(client, int(sys.argv[1]))
    read(client, 28)
    os.kill(os.getpid(), signal.SIGKILL)
