# SPDX-License-Identifier: BSD-3-Clause
"""Whether the table and the CSV of bench/compare, in the working directory, hold every server with plausible figures."""
import csv

with open("runs.csv", newline="", encoding="utf-8") as f:
    runs = list(csv.DictReader(f))
assert sorted((r["server"], r["run"]) for r in runs) == \
    [(s, n) for s in ("file", "loop", "nbdloopd", "preadv", "qemu-nbd", "raw") for n in ("1", "2")], "not each server twice"
for r in runs:
    assert r["cell"] == "randread-4k/d8/c1", r
    ios, seconds = int(r["ios"]), float(r["seconds"])
    assert 0 < ios <= 64 * 256, "more than one pass over the image"
    assert int(r["bytes"]) == ios * 4096, r
    assert abs(float(r["iops"]) - ios / seconds) <= 1 + ios / seconds / 1000, r
    assert 0 < float(r["p50_us"]) <= float(r["p99_us"]) <= float(r["p999_us"]), r
    assert int(r["cached_before"]) < 1 << 20, "the image was in the page cache before the run"
    if r["server"] == "raw":
        assert r["server_cpu_s"] == r["switches_per_io"] == "", "raw has no server"
    else:
        # Each I/O uses some processor time, and the whole run at most the time of every processor.
        assert 1 < float(r["server_cpu_s_per_million"]) < 1e4, r
        assert 0 < float(r["switches_per_io"]) < 100, r
        assert int(r["rss_growth"]) >= 0, r
    # A buffered server leaves the data that it read in the page cache, except for pages that other
    # programs made the kernel drop.
    if r["server"] == "file":
        assert int(r["cache_growth"]) >= int(r["bytes"]) * 9 // 10, r
    if r["server"] == "preadv":
        assert int(r["disk_read"]) == int(r["bytes"]), "direct I/O that does not read what it serves"

with open("table.log", encoding="utf-8") as f:
    lines = f.read().splitlines()
for at, line in enumerate(lines):
    if line.startswith("|") and lines[at - 1].startswith("|"):
        assert line.count("|") == lines[at - 1].count("|"), "a table's row has too many or too few cells: " + line
rows = [line for line in lines if "| 8 x 1 |" in line]
assert [row.split("|")[1].strip() for row in rows] == ["loop", "nbdloopd", "file", "preadv", "qemu-nbd", "raw"], rows
middle = sorted(float(r["iops"]) for r in runs if r["server"] == "file")
assert f"| {sum(middle) / 2:,.0f} (" in rows[2], "the table's IOPS is not the median of the CSV: " + rows[2]
assert any(line.startswith("| 4 KiB random read, depth 8 |") for line in lines), "no summary of loop against file"
