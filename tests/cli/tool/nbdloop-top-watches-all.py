# SPDX-License-Identifier: BSD-3-Clause
"""Whether the reports of `nbdloop top --json` show what happened between them.

    PROGRAM REPORTS DIRECTORY PID
"""
import json
import sys

with open(sys.argv[1]) as f:
    reports = [json.loads(line) for line in f]
directory, pid = sys.argv[2], int(sys.argv[3])
assert len(reports) == 6
assert all(0.4 < r["seconds"] < 20 for r in reports), [r["seconds"] for r in reports]
assert all(r["denied"] == 0 for r in reports)
assert all(len(r["lines"]) == 5 for r in reports), [[line["name"] for line in r["lines"]] for r in reports]


def lines(name):
    return [line for r in reports for line in r["lines"] if line["name"] == name]


def total(name, op, figure):
    return round(sum(line["requests"][op][figure] * line["seconds"] for line in lines(name) if line["requests"]))


device, export = "/dev/nbd0", f"{pid}:"
assert [line["kind"] for line in lines(device)] == ["device"] * 6
assert [line["kind"] for line in lines(export)] == ["export"] * 6
assert total(device, "read", "iops") == 1000 and total(device, "read", "bytes-per-second") == 1000 * 4096
assert total(device, "flush", "iops") == 10 and total(device, "write", "iops") == 0
assert total(export, "read", "iops") == 100 and total(export, "read", "bytes-per-second") == 100 * 8192
assert total(export, "write", "iops") == 1
(busy,) = [line for line in lines(device) if line["requests"]["read"]["iops"] > 0]
assert busy["requests"]["read"]["average-ms"] == 2
one = lines(device)[-1]
assert one["image"] == f"{directory}/one.img" and one["in-flight"] == 5 and one["connections"] == 0
assert one["answers"] and one["trouble"] is None and one["limits"] == "" and one["tls"] == "off"
two = lines(export)[-1]
assert two["limits"] == "iops-limit=100000,burst:5000 connections-limit=7"
assert two["control"] == f"{directory}/two.ctl" and two["server-pid"] == pid and two["size"] == 64 << 20
assert two["engine"] in ("io_uring", "aio", "threads")
assert two["held"] == {"now": 0, "per-second": 0, "average-ms": 0} and two["disk"] == {"iops": 0, "bytes-per-second": 0}, two
# What the server did on the disk, where large holes are not read.
disk = [sum(line["disk"][name] * line["seconds"] for line in lines(export) if line["disk"]) for name in ("iops", "bytes-per-second")]
assert 1 <= round(disk[0]) <= 101 and 4096 <= round(disk[1]) <= 100 * 8192 + 4096, disk
some = [line for line in lines(export) if line["p99-us"]]
assert some and all(0 < line["p50-us"] <= line["p99-us"] for line in some)
assert sum(sum(line["requests"]["read"]["histogram"]) for line in lines(export) if line["requests"]) == 100
three = lines(f"{directory}/three.ctl")
assert len(three) == 6 and not any(line["answers"] for line in three)
assert three[-1]["trouble"].startswith("no answer for ") and three[-1]["requests"] is None
assert [line["answers"] for line in lines("/dev/nbd10")] == [True] * 6
