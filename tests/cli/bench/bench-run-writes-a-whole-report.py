# SPDX-License-Identifier: BSD-3-Clause
"""Whether a report of bench/run is complete and plausible.

    PROGRAM report     the report of a tiny run, in the directory report
    PROGRAM full       the one of every workload, in the directory full
"""
import csv
import re
import sys


def rows(report, name):
    with open(f"{report}/{name}", newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def text_of(report):
    with open(f"{report}/report.md", encoding="utf-8") as f:
        return f.read()


def report_is_whole():
    text = text_of("report")
    lines = text.splitlines()

    for fact in ("machine:", "Linux", "file system:", "nbdkit:", "client: fio", "nbdloopd: nbdloopd", "runs: 1 of each",
                 "image: 32 MiB"):
        assert fact in text, f"the report does not state '{fact}'"
    heads = [line[3:].split(":")[0] for line in lines if line.startswith("## ")]
    assert heads == ["Won and lost", "S1", "S1", "S2", "S2", "S3", "S3", "S3", "S4", "Many", "Cache",
                     "Peers", "Device", "What could not be measured", "Every single run"], heads
    for at, line in enumerate(lines):
        if line.startswith("|") and lines[at - 1].startswith("|"):
            assert line.count("|") == lines[at - 1].count("|"), "a table's row has too many or too few cells: " + line

    # A section of cells begins with its first cell in one line, and the summary has magnitudes.
    for key in ("S1", "S3", "S4", "Cache", "Peers"):
        assert re.search(rf"^## {key}: .*\n\n\*\*4 KiB random \w+, depth \d+.*: .* makes [\d.]+ times the IOPS of ",
                         text, re.M), f"{key} has no headline"
    assert re.search(r"^\| Peers \| nbdloopd \| file \|.* \| [\d.]+ \([\d.]+–[\d.]+\) \|$", text, re.M), "no magnitudes"
    for name in re.findall(r"\((peers[a-z0-9-]*)\.svg\)", text):
        with open(f"report/{name}.gnuplot", encoding="utf-8") as f:
            assert "linecolor rgb '#1f77b4' title 'nbdloopd'" in f.read(), name

    # Each plot that the report shows exists in both forms, and has something drawn in it.
    plots = re.findall(r"^!\[.*\]\((.*)\.svg\)$", text, re.M)
    assert len(plots) == len(set(plots)) >= 10, plots
    for name in plots:
        with open(f"report/{name}.svg", encoding="utf-8") as f:
            assert "</svg>" in f.read(), name
        with open(f"report/{name}.png", "rb") as f:
            assert f.read(8) == b"\x89PNG\r\n\x1a\n", name
    assert "No plot" not in text

    # Every section has its runs, each run has plausible figures, and the report has the same
    # figures as the CSV.
    runs = rows("report", "runs.csv")
    assert {r["section"] for r in runs} == {"S1", "S3", "S4", "Cache", "Peers"}, "a section has no runs"
    for r in runs:
        assert int(r["ios"]) > 0 and float(r["iops"]) > 0 and float(r["p50_us"]) > 0, r
        assert int(r["cached_before"]) < 1 << 20, "the image was in the page cache before the run"
        if r["server"] not in ("raw",) and not r["server"].startswith("loop-device"):
            assert 0 < float(r["server_cpu_s_per_million"]) < 1e5, r
        # The CSV has one decimal place: of 3062.5, it does not tell how the report has rounded.
        figures = {f"{float(r['iops']) + part:,.0f} (" for part in (-0.05, 0.05)}
        assert any(figure in text for figure in figures) or float(r["iops"]) < 100, "the report lacks " + str(r)
    have = {(r["section"], r["server"]) for r in runs}
    for section, servers in {
        "S1": "nbdloopd nbdloopd:direct-io=off",
        "S3": "nbdloopd file",
        "S4": "file:threads=1 file:threads=64 loop:threads=64 nbdloopd nbdloopd-unmerged",
        "Cache": "nbdloopd nbdloopd:direct-io=off:page-cache=drop file",
        "Peers": "nbdloopd loop file file-none raw",
    }.items():
        for server in servers.split():
            assert (section, server) in have, f"{server} is not in {section}"

    engine = rows("report", "engine.csv")
    for way in ("threads", "aio", "io_uring", "files", "buffers"):
        for depth in ("1", "2", "4", "8", "16", "32", "64"):
            mine = [r for r in engine if r["part"] == "S2" and r["way"] == way and r["depth"] == depth]
            if not any(float(r["p50_us"]) > 0 for r in mine):
                assert re.search(rf"^\| {way} \| all of S2 \|", text, re.M), f"{way}/{depth} is neither measured nor named"
    assert all(int(r["through_registered_buffers"]) >= int(r["reads"]) for r in engine if r["way"] == "buffers")
    assert all(int(r["through_registered_buffers"]) == 0 for r in engine if r["way"] in ("aio", "io_uring", "files"))
    assert {r["counter"] for r in engine if r["part"] == "S3 memory"} == {"own", "shared"}
    assert all(float(r["submit_ns"]) > 0 for r in engine if r["part"] == "S2 submission")
    answers = rows("report", "answers.csv")
    assert {r["server"] for r in answers} == {"nbdloopd", "memory"}, answers
    assert {"1", "2", "4", "8"} <= {r["connections"] for r in answers}, answers
    many = rows("report", "many.csv")
    assert {r["server"] for r in many} == {"one export", "many exports"}, many
    assert all(float(r["rate"]) > 0 and float(r["server_us"]) > 0 for r in many), many
    assert re.search(r"^\| 20 exports, a client on each \| [\d.,]+ \| [\d.,]+ \|$", text, re.M), "no memory of Many"

    # The tables and the end of the report name each server that could not be measured, with its own
    # error message, and no other server.
    end = text[text.index("## What could not be measured"):]
    named = set(re.findall(r"^\| ([^ |]+) \|", end, re.M)) - {"server", "---"}
    assert "broken on purpose" in end and {"qemu-nbd", "qemu-nbd-native"} <= named, end
    assert re.search(r"^\| qemu-nbd \| not measured \|", text, re.M), "the table leaves a server out"
    peers = {"qemu-nbd", "qemu-nbd-native", "qemu-storage-daemon", "nbd-server", "loop-device", "loop-device:direct-io=off"}
    for server in peers:
        assert (server in named) != (("Peers", server) in have), f"{server} is neither measured nor named, or both"
    if "polled" in {r["way"] for r in engine}:
        named.add("polled")
    assert "polled" in named, "polling is neither measured nor refused"


def all_workloads_are_measured():
    runs = rows("full", "runs.csv")
    patterns = ("randread", "randwrite", "mixed", "flush")
    workloads = {f"{pattern}-{block}" for pattern in patterns for block in ("4k", "64k", "1m")}
    for server in "nbdloopd", "raw":
        assert {r["workload"] for r in runs if r["server"] == server} == workloads, (server, runs)
    for r in runs:
        assert int(r["ios"]) > 0 and int(r["bytes"]) == int(r["ios"]) * int(r["block"]), r
        if r["workload"].startswith("flush") and int(r["ios"]) >= 64:
            assert 16 <= float(r["ios_per_flush"]) <= 64, r
    text = text_of("full")
    assert "every server ran in every cell" in text
    for title in ("64 KiB random read", "70 % reads", "a flush after every 32"):
        assert title in text, "no table of " + title


{"report": report_is_whole, "full": all_workloads_are_measured}[sys.argv[1]]()
