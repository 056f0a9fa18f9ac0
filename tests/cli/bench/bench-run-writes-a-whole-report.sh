#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/run writes a complete report of a tiny run: every section has tables with figures, plots and
# the runs that they come from, and the report names a server that cannot be started. The run also
# compares nbdloopd-unmerged, which merges no requests.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/run
CC=${CC:-cc}
require fio nbdkit gnuplot python3 make "${CC%% *}"
fio --enghelp | grep -w nbd >/dev/null || skip "this fio has no nbd engine"
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
PATH=$dir/bin:$PATH "$bench" --quick --runs 1 --seconds 0.1 --exports 20 --image-size 32M --directory "$dir" \
	--output report >run.log 2>bench.log ||
	fail "the bench failed"
expect_equal "what it printed" report/report.md "$(cat run.log)"
expect_equal "the files after a run" "bench.log bin report run.log" "$(echo *)"

python3 "$own_python" report >checks.log 2>&1 || fail "the report is not as it should be"

# Every workload of --full works, and a flush follows 32 writes.
"$bench" --full --sections Peers --cells '/d1/c1$' --servers '^(nbdloopd|raw)$' --runs 1 --seconds 0.2 \
	--image-size 64M --directory "$dir" --output full >full.log 2>bench.log || fail "the full bench failed"
python3 "$own_python" full >checks.log 2>&1 || fail "not every workload is measured as it should be"

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
