# SPDX-License-Identifier: BSD-3-Clause
"""A client that sends much more after NBD_CMD_DISC, and one that never closes its end.

    PROGRAM PORT CONTROL
"""
import os
import socket
import struct
import sys
import time

import nbd

from control import status
from raw_nbd import DISC, READ, SIMPLE, request
from waiting import wait_until

port, control = sys.argv[1:]
LENGTH, READS = 128 << 10, 4


def connect():
    """The socket of a client that has negotiated, with small buffers, and the client."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    s.settimeout(20)
    s.connect(("127.0.0.1", int(port)))
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    h.connect_socket(os.dup(s.fileno()))
    return s, h


def wait_for_end():
    wait_until("a client that has disconnected is gone", lambda: not status(control)["connections"], 10)


s, h = connect()
s.sendall(b"".join(request(SIMPLE, READ, 0, LENGTH, cookie=i) for i in range(READS)) + request(SIMPLE, DISC) + bytes(256 << 10))
time.sleep(1)
data = bytearray()
while part := s.recv(1 << 20):
    data += part
replies = sorted(bytes(data[at:at + 16 + LENGTH]) for at in range(0, len(data), 16 + LENGTH))
assert replies == [struct.pack(">IIQ", 0x67446698, 0, i) + bytes(LENGTH) for i in range(READS)], len(data)
s.close()
del h
wait_for_end()

s, h = connect()
s.sendall(request(SIMPLE, DISC))
assert s.recv(1) == b""
wait_for_end()
