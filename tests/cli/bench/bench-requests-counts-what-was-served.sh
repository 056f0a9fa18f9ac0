#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/requests measures each server with each kind of client, and counts the requests that the
# server served.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/requests
CC=${CC:-cc}
require nbdkit python3 "${CC%% *}"
export LOOP_PLUGIN=$plugin NBDLOOPD
NBDLOOPD=$(command -v nbdloopd)
"$bench" --servers nbdloopd,loop,memory,null --runs 1 --seconds 1 --connections 2 --directory "$dir" \
	>"$dir/table.log" 2>"$dir/bench.log" || fail "the bench failed"
expect_equal "what the bench said" "" "$(cat "$dir/bench.log")"
expect_equal "clients and servers" "alone/loop alone/memory alone/nbdloopd alone/null batched/loop batched/memory batched/nbdloopd batched/null" \
	"$(sed -nE 's/^\| (alone|batched) \| 2 \| (\w+) \|.*/\1\/\2/p' "$dir/table.log" | sort | paste -sd ' ')"
# Only the last column, the context switches, may hold no figure.
! grep -E '\| ((–|nan) |0(\.0+)? .*\| [0-9])' "$dir/table.log" || fail "a figure is missing"

# The load program and the server count the same requests.
$CC -D_GNU_SOURCE -I "${bench%/bench/*}" -O2 -pthread -o "$dir/load" "${bench%/*}"/{load,wire_plain}.c || fail "load.c does not compile"
truncate -s 16M "$dir/disk.img"
start_nbdloopd --control="$dir/control" --direct-io=off "$dir/disk.img"
for mode in batched alone; do
	answered=$("$dir/load" "$sock" 3 8 512 1 "$mode" read) || fail "the load failed"
	echo "$mode: $answered" >>"$dir/load.log"
done
total=$(awk '{ total += $2 } END { print total }' "$dir/load.log")
served=$(control "$dir/control" status exports.0.counters.reads)
echo "$total answered, $served served" >>"$dir/load.log"
# The load program doesn't count the requests that were in flight when it ended; the server counts
# merged requests once.
[ "$served" -le $((total + 2 * 3 * 8)) ] && [ "$served" -gt $((total * 9 / 10)) ] || fail "the load counted $total, the server $served"
