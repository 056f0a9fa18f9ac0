# SPDX-License-Identifier: BSD-3-Clause
"""Whether reports of `nbdloop status --json --watch` show what happened between them.

    PROGRAM REPORTS SERVER-PID IMAGE
"""
import json
import sys

with open(sys.argv[1]) as f:
    reports = [json.loads(line) for line in f if line.startswith("{")]
first = reports[0]
assert first["name"] == "/dev/nbd0" and first["back-file"] == sys.argv[3] and first["size"] == 64 << 20, first
assert first["in-flight"] == {"read": 3, "write": 2}, first["in-flight"]
assert first["server-status"]["pid"] == first["server-pid"] == int(sys.argv[2])
assert all(first["requests"][op]["iops"] == 0 for op in first["requests"]), first["requests"]
assert first["requests"]["read"]["p50-us"] is None
assert all(0.9 < r["seconds"] < 60 for r in reports), [r["seconds"] for r in reports]


def total(op, figure):
    return round(sum(r["requests"][op][figure] * r["seconds"] for r in reports))


assert total("read", "iops") == 1000, total("read", "iops")
assert total("read", "bytes-per-second") == 1000 * 4096, total("read", "bytes-per-second")
assert total("flush", "iops") == 10 and total("write", "iops") == 0
assert abs(sum(r["busy"] * r["seconds"] for r in reports) - 0.2) < 1e-6, [r["busy"] for r in reports]
(busy,) = [r for r in reports if r["requests"]["read"]["iops"] > 0]
assert busy["requests"]["read"]["average-bytes"] == 4096 and busy["requests"]["read"]["average-ms"] == 2, busy
assert busy["requests"]["flush"]["average-ms"] == 2, busy


def requests(op):
    return sum(sum(r["requests"][op]["histogram"]) for r in reports)


assert (requests("read"), requests("write"), requests("zero")) == (100, 50, 1), [requests(op) for op in ("read", "write", "zero")]
assert total("zero", "iops") == 1
some = [r["requests"]["read"] for r in reports if sum(r["requests"]["read"]["histogram"]) > 0]
assert all(0 < o["p50-us"] <= o["p99-us"] <= o["max-us"] for o in some), some
