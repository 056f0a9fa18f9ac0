# SPDX-License-Identifier: BSD-3-Clause
"""Clients that are silent or gone keep nobody from the figures.

    PROGRAM HOST:PORT SECONDS
"""
import socket
import sys
import time

from http_unix import ask

address, limit = sys.argv[1], float(sys.argv[2])
host, port = address.rsplit(":", 1)


def connect():
    return socket.create_connection((host, int(port)))


def answers(what):
    begin = time.monotonic()
    assert ask(address, "/metrics")[0].status == 200
    took = time.monotonic() - begin
    assert took < limit, f"{what}: the figures took {took:.1f} s"


for _ in range(64):
    with connect() as client:
        client.sendall(b"G")
answers("64 clients that sent a byte and closed")
silent = [connect() for _ in range(48)]
answers("48 silent clients")
# A client that has said all still gets its answer, though it sends no more.
with connect() as client:
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.shutdown(socket.SHUT_WR)
    assert client.makefile("rb").readline().startswith(b"HTTP/1.1 200"), "no answer to a half-closed client"
