# SPDX-License-Identifier: BSD-3-Clause
"""A client of HTTP over a unix socket or TCP."""
import http.client
import socket


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def ask(address, path, method="GET", headers=None):
    """The answer and its text.  `address`: a path, or HOST:PORT."""
    connection = Unix(address) if "/" in address else http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text
