# SPDX-License-Identifier: BSD-3-Clause
"""Sends one request to a control socket.

    control.py SOCKET REQUEST [PATH]

Prints the answer, or the value at PATH in it ("exports.0.direct_io"); true, false and null
are printed as JSON writes them.  Fails unless the answer is one line holding one JSON object.
"""
import json
import socket
import sys
import time


def ask(path, request):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        s.sendall(request.encode(errors="surrogateescape") + b"\n")
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                return answer
            answer += piece


def wait_for_requests(path, count, seconds):
    """Until nbdloopd has taken so many requests of the client that connected last."""
    end = time.monotonic() + seconds
    while True:
        connections = json.loads(ask(path, "status"))["connections"]
        newest = max(connections, key=lambda connection: connection["id"], default={"requests": 0})
        if newest["requests"] >= count:
            return
        assert time.monotonic() < end, f"not {count} requests are under way: {newest}"
        time.sleep(0.01)


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
