#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/compare measures one cell: its table and its CSV hold every server, with plausible figures.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/compare
CC=${CC:-cc}
require fio nbdkit python3 pkg-config "${CC%% *}"
fio --enghelp | grep -w nbd >/dev/null || skip "this fio has no nbd engine"
cd "$dir"
dd if=/dev/zero of=probe bs=4096 count=1 oflag=direct status=none 2>/dev/null ||
	skip "the file system of $dir has no direct I/O"
rm probe

LOOP_PLUGIN=$plugin NBDLOOPD=$(command -v nbdloopd) "$bench" --cells '^randread-4k/d8/c1$' --seconds 2 --runs 2 --image-size 64M \
	--servers loop,nbdloopd,file,preadv,qemu-nbd,raw --directory "$dir" --csv runs.csv >table.log 2>bench.log || fail "the bench failed"
expect_equal "the files after a run" "bench.log runs.csv table.log" "$(echo *)"

python3 "$own_python" >checks.log 2>&1 || fail "the table or the CSV is not as it should be"

# A wrong command is answered with a message that names the mistake, and measures nothing.
must_fail "$bench" --cells nothing-like-this
grep -q "nothing-like-this" refused.log || fail "a cell that does not exist is not named"
python=$(python3 -c 'import sys; print(sys.executable)')
must_fail env PATH="$dir" "$python" "$bench" --quick
grep -q "Debian package: fio" refused.log || fail "the package of a missing tool is not named"
