# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a control socket.  As a program it sends one request:

    control.py SOCKET REQUEST [PATH]

Prints the answer, or the value at PATH in it ("exports.0.direct_io"); true, false and null
are printed as JSON writes them.  Fails unless the answer is one line holding one JSON object.
"""
import json
import socket
import sys

from waiting import wait_until


def ask(path, request, seconds=60):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(seconds)
        s.connect(path)
        s.sendall(request.encode(errors="surrogateescape") + b"\n")
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return answer
            answer += piece


def status(path):
    return json.loads(ask(path, "status"))


class Control:
    """Requests to a control socket, each on a connection of its own: nbdloopd ends one that has
    been idle for five seconds."""

    def __init__(self, path):
        self.path = path

    def ask(self, request):
        """The answer, which must not be an error."""
        answer = json.loads(ask(self.path, request))
        assert "error" not in answer, (request, answer)
        return answer

    def status(self):
        return self.ask("status")

    def export(self):
        """The status of the first export."""
        return self.status()["exports"][0]


def wait_for_requests(path, count):
    """Until nbdloopd has taken this many requests of the client that connected last."""
    def taken():
        connections = status(path)["connections"]
        return max(connections, key=lambda connection: connection["id"], default={"requests": 0})["requests"]

    wait_until(f"{count} requests are in flight", lambda: taken() >= count, seen=taken)


def main():
    answer = ask(sys.argv[1], sys.argv[2])
    if not answer.endswith(b"\n") or answer.count(b"\n") != 1:
        sys.exit(f"the answer is not one line: {answer!r}")
    value = json.loads(answer.decode())
    if not isinstance(value, dict):
        sys.exit(f"the answer is not a JSON object: {answer!r}")
    for step in sys.argv[3].split(".") if len(sys.argv) > 3 else []:
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (KeyError, IndexError):
            sys.exit(f"no {sys.argv[3]} in the answer: {answer.decode()}")
    print(value if isinstance(value, str) else json.dumps(value))


if __name__ == "__main__":
    main()
