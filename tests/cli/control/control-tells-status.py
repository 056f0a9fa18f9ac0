# SPDX-License-Identifier: BSD-3-Clause
"""Whether the status is right.

    PROGRAM facts STATUS IMAGE PID ENGINE     of a server without clients, in the file STATUS
    PROGRAM counters URI CONTROL              while a client makes requests
"""
import json
import os
import sys

from client import connect
from control import Control


def facts_are_right(path, image, pid, engine):
    with open(path) as f:
        status = json.load(f)
    assert set(status) == {"program", "version", "pid", "swap", "exports"}, status.keys()
    assert status["swap"] is False
    assert status["program"] == "nbdkit-loop-plugin"
    assert status["pid"] == int(pid)
    assert status["version"]
    (export,) = status["exports"]
    wanted = {
        "name": "", "file": image, "size": 9 << 20, "offset": 1 << 20, "sizelimit": 0, "sector_size": 4096,
        "read_only": False, "read_only_reason": "", "engine": engine, "direct_io": True, "direct_io_reason": "",
        "poll": False, "discard": False, "lock": "exclusive", "connections": 0, "depth": 5,
    }
    for key, value in wanted.items():
        assert export[key] == value and type(export[key]) is type(value), (key, export[key], value)
    place = os.stat(image)
    assert export["inode"] == place.st_ino and export["device"] == f"{os.major(place.st_dev)}:{os.minor(place.st_dev)}", export
    for key, kind in {"engine_reason": str, "poll_reason": str, "direct_io_align": int,
                      "memory_align": int, "contexts": int, "registered_buffers": bool}.items():
        assert type(export[key]) is kind, (key, export[key])
    assert export["contexts"] <= 3, export["contexts"]
    assert export["direct_io_align"] in (512, 1024, 2048, 4096)
    assert set(export["counters"]) == {
        "reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "zeroes", "errors",
        "bounced", "read_modify_writes", "registered", "short_transfers", "retries"}, export["counters"].keys()


def counters_count(uri, control):
    export = Control(control).export

    def grown(action):
        before = export()["counters"]
        action()
        after = export()["counters"]
        return {key: after[key] - before[key] for key in after if after[key] != before[key]}

    h = connect(uri, unaligned=True)
    assert export()["connections"] == 1, export()["connections"]

    seen = grown(lambda: h.pread(65536, 0))
    assert seen["reads"] == 1 and seen["read_bytes"] == 65536, seen
    assert "writes" not in seen and "read_modify_writes" not in seen and "errors" not in seen, seen
    seen = grown(lambda: h.pwrite(b"x" * 8192, 4096))
    assert seen["writes"] == 1 and seen["write_bytes"] == 8192, seen
    assert "read_modify_writes" not in seen, seen
    seen = grown(lambda: h.pwrite(b"x" * 100, 5000))
    assert seen["writes"] == 1 and seen["write_bytes"] == 100 and seen["read_modify_writes"] >= 1, seen
    assert grown(h.flush)["flushes"] == 1
    assert grown(lambda: h.trim(65536, 1 << 20))["discards"] == 1
    assert grown(lambda: h.zero(65536, 2 << 20))["zeroes"] == 1
    assert grown(lambda: None) == {}
    h.shutdown()


{"facts": facts_are_right, "counters": counters_count}[sys.argv[1]](*sys.argv[2:])
