# SPDX-License-Identifier: BSD-3-Clause
"""A client with TLS writes, reads back, and asks the server how the connection is encrypted:
nbdloopd-encrypts-in-the-kernel.py URI CONTROL EXPECTED"""
import json
import os
import random
import socket
import sys

import nbd

uri, control, expected = sys.argv[1:]
size = 8 << 20
client = nbd.NBD()
client.set_uri_allow_local_file(True)
client.set_strict_mode(client.get_strict_mode() & ~nbd.STRICT_ALIGN)
client.connect_uri(uri)
assert client.get_tls_negotiated()

# Requests of many sizes, several in flight, some longer than a record.
data = bytearray(size)
source = random.Random(1)
at = 0
while at < size:
    length = min(source.choice((1, 512, 4096, 16384, 65536, 1 << 20)), size - at)
    piece = source.randbytes(length)
    client.pwrite(piece, at, nbd.CMD_FLAG_FUA if length > 65536 else 0)
    data[at:at + length] = piece
    at += length
client.flush()
buffers = [nbd.Buffer(131072) for _ in range(32)]
cookies = [client.aio_pread(buffer, number * 131072) for number, buffer in enumerate(buffers)]
while client.aio_in_flight() > 0:
    client.poll(-1)
assert all(client.aio_command_completed(cookie) for cookie in cookies)
for number, buffer in enumerate(buffers):
    assert buffer.to_bytearray() == data[number * 131072:(number + 1) * 131072], number
for start in range(0, size, 1 << 20):
    assert client.pread(1 << 20, start) == data[start:start + (1 << 20)], start

asked = socket.socket(socket.AF_UNIX)
asked.connect(control)
asked.sendall(b"status\n")
status = json.load(asked.makefile())
said = status["connections"][0]["tls"]
assert said == expected, said
client.shutdown()
