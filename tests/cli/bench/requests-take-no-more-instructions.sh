#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No kind of request takes over 5 % more instructions than when bench/instructions.txt was recorded,
# in nbdloopd and in nbdkit with the plugin. `make check-valgrind' runs this test.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)
CC=${CC:-cc}
require valgrind nbdkit readelf pkg-config "${CC%% *}"
export LOOP_PLUGIN=$plugin NBDLOOPD=$top_builddir/server/nbdloopd
status=0

guard() # [OPTION...]
{
	status=0
	"$bench/instructions" --check --directory "$dir" "$@" >"$dir/figures.log" 2>"$dir/guard.log" || status=$?
}

# Runs the guard against a baseline that lies PERCENT below the cell's figure. That figure is the
# one measured just now, because a change may have saved some percent since the recording.
guard_above() # PERCENT CELL
{
	awk -v percent="$1" -v cell="$2" -v measured="$measured" \
		'$1 == cell { $2 = measured / (1 + percent / 100) } { print }' "$bench/instructions.txt" >"$dir/$1.txt"
	guard --baseline "$dir/$1.txt" --cells "^$2\$"
}

guard
all=$status
said=$(tail -n 1 "$dir/guard.log")
[ "$all" = 0 ] || [ "$all" = 77 ] || fail "the guard failed"
grep -q ' process ' "$dir/figures.log" || skip "$said"

measured=$(awk '$1 == "loop/io_uring/read-batch" { print $2 }' "$dir/figures.log")
[ -n "$measured" ] || fail "there is no figure for loop/io_uring/read-batch"
guard_above 4 loop/io_uring/read-batch
expect_equal "status of the guard at 4 % more" "$all" "$status"
guard_above 6 loop/io_uring/read-batch
expect_equal "status of the guard at 6 % more" 1 "$status"
grep -q '^  loop/io_uring/read-batch: own code: +[67]' "$dir/guard.log" || fail "the guard does not say what has grown"
[ "$all" = 0 ] || skip "$said"
