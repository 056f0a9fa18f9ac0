# SPDX-License-Identifier: BSD-3-Clause
"""A client with TLS writes, reads back, and asks the server how the connection is encrypted:
nbdloopd-encrypts-in-the-kernel.py URI CONTROL EXPECTED.  EXPECTED is what the status says, or
"ended": the server ends the connection.
"""
import errno
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


def encryption():
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(control)
    asked.sendall(b"status\n")
    return json.load(asked.makefile())["connections"][0]["tls"]


def until_the_end():
    """Writes with 16 requests in flight; returns how many were answered, and the errors of the others."""
    answers = {}
    data = nbd.Buffer.from_bytearray(bytearray(os.urandom(65536)))
    # The server asks the kernel when nothing is in flight.
    for _ in range(10):
        client.pread(512, 0)
    assert encryption().endswith(" kernel"), encryption()

    def completion(error):
        answers[error.value] = answers.get(error.value, 0) + 1
        return 1

    try:
        for number in range(1000):
            while client.aio_in_flight() >= 16:
                client.poll(-1)
            client.aio_pwrite(data, number % 64 * 65536, completion)
    except nbd.Error:
        pass
    return answers.pop(0, 0), answers


if expected == "ended":
    answered, errors = until_the_end()
    assert 16 <= answered < 200 and errno.ESHUTDOWN not in errors, (answered, errors)
    sys.exit()

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

said = encryption()
assert said == expected, said
client.shutdown()
