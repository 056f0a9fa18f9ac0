#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/ceph starts a cluster of its own, and measures what it is told to: reads and writes of
# nbdloopd beside `rbd bench', each with the CPU time of what served them.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/ceph
CC=${CC:-cc}
require python3 "${CC%% *}"
[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
[ -z "${NBDLOOP_VALGRIND-}" ] || skip "valgrind would check Ceph's libraries"
status=0
(cd "$top_builddir" && NBDLOOPD='' timeout $((120 * time_factor)) "$bench" --servers nbdloopd,rbd-bench --runs 1 \
	--seconds 1 --image-size 64 --directory "$dir" --cells 'reads, depth (32|8)|4 KiB writes, depth 128') \
	>"$dir/table.log" 2>"$dir/bench.log" || status=$?
[ "$status" -ne 77 ] || skip "$(head -n 1 "$dir/table.log")"
[ "$status" -eq 0 ] || fail "the bench failed"
figure='([1-9][0-9,.]*|0\.[0-9]*[1-9][0-9]*)'
for server in nbdloopd rbd-bench; do
	expect_equal "what was measured of $server" "1 MiB reads, depth 8;4 KiB reads, depth 32;4 KiB writes, depth 128" \
		"$(sed -nE "s/^\\| ([0-9][^|]*) \\| $server \\| [1-9].*/\\1/p" "$dir/table.log" | sort | paste -sd ';')"
done
# The server, its client and the OSD have a cost; `rbd bench' has no client.
expect_equal "costs of nbdloopd" 3 "$(grep -cE "\\| nbdloopd \\| [^|]* \\| – \\| $figure \\| $figure \\| $figure \\|\$" "$dir/table.log")"
expect_equal "costs of rbd bench" 3 "$(grep -cE "\\| rbd-bench \\| [^|]* \\| $figure \\| $figure \\| – \\| $figure \\|\$" "$dir/table.log")"
