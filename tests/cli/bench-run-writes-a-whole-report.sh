#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/run writes a complete report of a tiny run: every section has tables with figures, plots and
# the runs that they come from, and the report names a server that cannot be started. The run also
# compares nbdloopd-unmerged, which merges no requests.
. "$(dirname "$0")/../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/run
CC=${CC:-cc}
require fio nbdkit gnuplot python3 make "${CC%% *}"
fio --enghelp | grep -qw nbd || skip "this fio has no nbd engine"
[ -w /dev/shm ] || skip "/dev/shm is not there for images in memory"
cd "$dir"
dd if=/dev/zero of=probe bs=4096 count=1 oflag=direct status=none 2>/dev/null ||
	skip "the file system of $dir has no direct I/O"
rm probe

# An installed server that does not start.
mkdir bin
printf '#!/bin/sh\necho "qemu-nbd: broken on purpose" >&2\nexit 1\n' >bin/qemu-nbd
chmod +x bin/qemu-nbd

export LOOP_PLUGIN=$plugin NBDLOOPD top_builddir
NBDLOOPD=$(command -v nbdloopd)
PATH=$dir/bin:$PATH "$bench" --quick --runs 1 --seconds 0.1 --image-size 32M --directory "$dir" --output report \
	>run.log 2>bench.log ||
	fail "the bench failed"
expect_equal "what it printed" report/report.md "$(cat run.log)"
expect_equal "the files after a run" "bench.log bin report run.log" "$(echo *)"

cat >check.py <<'EOF'
import csv, re, sys

def rows(name):
    with open("report/" + name, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))

with open("report/report.md", encoding="utf-8") as f:
    text = f.read()
lines = text.splitlines()

for fact in ("machine:", "Linux", "file system:", "nbdkit:", "client: fio", "nbdloopd: nbdloopd", "runs: 1 of each",
             "image: 32 MiB"):
    assert fact in text, f"the report does not state '{fact}'"
heads = [line[3:].split(":")[0] for line in lines if line.startswith("## ")]
assert heads == ["Won and lost", "S1", "S1", "S2", "S2", "S3", "S3", "S3", "S4", "Peers", "What could not be measured",
                 "Every single run"], heads
for at, line in enumerate(lines):
    if line.startswith("|") and lines[at - 1].startswith("|"):
        assert line.count("|") == lines[at - 1].count("|"), "a table's row has too many or too few cells: " + line

# Each plot that the report shows exists in both forms, and has something drawn in it.
plots = re.findall(r"^!\[.*\]\((.*)\.svg\)$", text, re.M)
assert len(plots) == len(set(plots)) >= 10, plots
for name in plots:
    with open(f"report/{name}.svg", encoding="utf-8") as f:
        assert "</svg>" in f.read(), name
    with open(f"report/{name}.png", "rb") as f:
        assert f.read(8) == b"\x89PNG\r\n\x1a\n", name
assert "No plot" not in text

# Every section has its runs, each run has plausible figures, and the report has the same figures as
# the CSV.
runs = rows("runs.csv")
assert {r["section"] for r in runs} == {"S1", "S3", "S4", "Peers"}, "a section has no runs"
for r in runs:
    assert int(r["ios"]) > 0 and float(r["iops"]) > 0 and float(r["p50_us"]) > 0, r
    assert int(r["cached_before"]) < 1 << 20, "the image was in the page cache before the run"
    if r["server"] not in ("raw",) and not r["server"].startswith("loop-device"):
        assert 0 < float(r["server_cpu_s_per_million"]) < 1e5, r
    assert f"{float(r['iops']):,.0f} (" in text or float(r["iops"]) < 100, "the report lacks " + str(r)
have = {(r["section"], r["server"]) for r in runs}
for section, servers in {
    "S1": "nbdloopd nbdloopd:direct-io=off",
    "S3": "nbdloopd file",
    "S4": "file:threads=1 file:threads=64 loop:threads=64 nbdloopd nbdloopd-unmerged",
    "Peers": "nbdloopd loop file file-none raw",
}.items():
    for server in servers.split():
        assert (section, server) in have, f"{server} is not in {section}"

engine = rows("engine.csv")
for way in ("threads", "aio", "io_uring", "files", "buffers"):
    for depth in ("1", "2", "4", "8", "16", "32", "64"):
        mine = [r for r in engine if r["part"] == "S2" and r["way"] == way and r["depth"] == depth]
        if not any(float(r["p50_us"]) > 0 for r in mine):
            assert re.search(rf"^\| {way} \| all of S2 \|", text, re.M), f"{way}/{depth} is neither measured nor named"
assert all(int(r["through_registered_buffers"]) >= int(r["reads"]) for r in engine if r["way"] == "buffers")
assert all(int(r["through_registered_buffers"]) == 0 for r in engine if r["way"] in ("aio", "io_uring", "files"))
assert {r["counter"] for r in engine if r["part"] == "S3 memory"} == {"own", "shared"}
assert all(float(r["submit_ns"]) > 0 for r in engine if r["part"] == "S2 submission")
answers = rows("answers.csv")
assert {r["server"] for r in answers} == {"nbdloopd", "memory"}, answers
assert {"1", "2", "4", "8"} <= {r["connections"] for r in answers}, answers

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
EOF
python3 check.py >checks.log 2>&1 || fail "the report is not as it should be"

# Every workload of --full works, and a flush follows 32 writes.
"$bench" --full --sections Peers --cells '/d1/c1$' --servers '^(nbdloopd|raw)$' --runs 1 --seconds 0.2 \
	--image-size 64M --directory "$dir" --output full >full.log 2>bench.log || fail "the full bench failed"
cat >check-full.py <<'EOF'
import csv

with open("full/runs.csv", newline="", encoding="utf-8") as f:
    runs = list(csv.DictReader(f))
patterns = ("randread", "randwrite", "mixed", "flush")
workloads = {f"{pattern}-{block}" for pattern in patterns for block in ("4k", "64k", "1m")}
for server in "nbdloopd", "raw":
    assert {r["workload"] for r in runs if r["server"] == server} == workloads, (server, runs)
for r in runs:
    assert int(r["ios"]) > 0 and int(r["bytes"]) == int(r["ios"]) * int(r["block"]), r
    if r["workload"].startswith("flush") and int(r["ios"]) >= 64:
        assert 16 <= float(r["ios_per_flush"]) <= 64, r
with open("full/report.md", encoding="utf-8") as f:
    text = f.read()
assert "every server ran in every cell" in text
for title in ("64 KiB random read", "70 % reads", "a flush after every 32"):
    assert title in text, "no table of " + title
EOF
python3 check-full.py >checks.log 2>&1 || fail "not every workload is measured as it should be"

# The shipped server merges requests that arrive together; the benchmark's server doesn't. Sets
# $served: a server that is started in a command substitution would be left running after a failure.
count_served()
{
	start_nbdloopd --control="$dir/control" "$dir/disk.img"
	fio --name=read --thread --ioengine=nbd --uri="$uri" --rw=read --bs=4k --iodepth=64 --size=8M >fio.log 2>&1 ||
		fail "fio fails"
	served=$(control "$dir/control" status exports.0.counters.reads)
	stop_server
}
head -c 8M /dev/urandom >disk.img
count_served
[ "$served" -lt 2048 ] || fail "nbdloopd served 2048 adjacent reads by $served"
ln -s "$top_builddir/bench/nbdloopd-unmerged" bin/nbdloopd
PATH=$dir/bin:$PATH count_served
expect_equal "reads without merging" 2048 "$served"

# A wrong command is answered with a message that names the mistake, and measures nothing.
must_fail "$bench" --sections S9
grep -q "S9" refused.log || fail "a section that does not exist is not named"
must_fail "$bench" --cells nothing-like-this --sections S4
grep -q "nothing-like-this" refused.log || fail "a cell that does not exist is not named"
must_fail "$bench" --sections S2 --output "$dir/bin" --directory "$dir"
grep -q "bin is not empty" refused.log || fail "a directory that holds something else is taken for a report"
[ -e bin/qemu-nbd ] || fail "what was in the directory is gone"
python=$(python3 -c 'import sys; print(sys.executable)')
must_fail env PATH="$dir" "$python" "$bench" --quick
grep -q "Debian package: fio" refused.log || fail "the package of a missing tool is not named"
