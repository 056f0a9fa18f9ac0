# SPDX-License-Identifier: BSD-3-Clause
"""What the status tells while clients are connected.

    PROGRAM URI CONTROL IMAGE PID ENGINE
"""
import os
import sys

import nbd

from client import connect, take
from control import Control
from raw_nbd import Raw
from waiting import wait_until

uri, path, image, pid, engine = sys.argv[1:]
control = Control(path)
s = control.status()
assert set(s) == {"program", "version", "pid", "host", "uptime", "swap", "sandbox", "tls", "threads", "poll_max_us",
                  "max_connections", "http", "exports", "loops", "connections"}, s.keys()
assert (s["program"], s["pid"], s["swap"], s["threads"], s["max_connections"]) == ("nbdloopd", int(pid), False, 2, 100)
assert s["connections"] == []
(e,) = s["exports"]
wanted = {"name": "disk", "description": "of mine", "file": image, "size": 9 << 20, "offset": 1 << 20, "sizelimit": 11 << 20,
          "connections": 0, "read_only": False, "engine": engine, "direct_io": True, "lock": "exclusive", "depth": 5}
for key, value in wanted.items():
    assert e[key] == value and type(e[key]) is type(value), (key, e[key], value)

clients = [connect(uri) for _ in range(3)]
for h in clients:
    h.pwrite(b"x" * 4096, 0)
half = Raw(uri.partition("socket=")[2])
half.greeting()
s = control.status()
assert s["exports"][0]["connections"] == 3
assert s["exports"][0]["counters"]["writes"] == 3, s["exports"][0]["counters"]
assert s["exports"][0]["counters"]["write_bytes"] == 3 * 4096
assert sorted(str(c["export"]) for c in s["connections"]) == ["None", "disk", "disk", "disk"], s["connections"]
assert {c["thread"] for c in s["connections"]} == {0, 1}, s["connections"]
assert sorted(c["write_bytes"] for c in s["connections"]) == [0, 4096, 4096, 4096], s["connections"]
assert all(c["read_bytes"] == 0 for c in s["connections"]), s["connections"]
assert sum(s["exports"][0]["latency_us"]["write"]) == 3, s["exports"][0]["latency_us"]
assert all(s["exports"][0]["latency_us"][op] == [] for op in ("read", "flush", "discard", "zero"))
assert all(f"pid {os.getpid()}, uid {os.getuid()}" in c["client"] for c in s["connections"]), s["connections"]


def in_flight():
    """Requests by connection, and of the export."""
    s = control.status()
    return sorted(c["requests"] for c in s["connections"]), s["exports"][0]["requests"]


def wait_for_requests(wanted):
    wait_until(f"{wanted} requests are in flight", lambda: in_flight() == (sorted(wanted), sum(wanted)), seen=in_flight)
    return control.status()


half.socket.close()

# A client that doesn't take its replies has requests in flight: each reply is larger than a
# socket's buffer.
buffers = [[nbd.Buffer(8 << 20) for _ in range(count)] for count in (3, 5)]
for h, own in zip(clients, buffers):
    for b in own:
        h.aio_pread(b, 0)
wait_for_requests([3, 5, 0])
for h in clients:
    take(h)
s = wait_for_requests([0, 0, 0])
assert sum(s["exports"][0]["latency_us"]["read"]) == 8, s["exports"][0]["latency_us"]
assert sorted(c["read_bytes"] for c in s["connections"]) == [0, 3 * 8 << 20, 5 * 8 << 20], s["connections"]
# The counters stay when all clients are gone, and when new clients are to be told a new size.
for h in clients:
    h.shutdown()
os.truncate(image, 12 << 20)
assert control.ask("resize")["size"] == 11 << 20
s = wait_for_requests([])
assert sum(s["exports"][0]["latency_us"]["read"]) == 8, s["exports"][0]["latency_us"]
