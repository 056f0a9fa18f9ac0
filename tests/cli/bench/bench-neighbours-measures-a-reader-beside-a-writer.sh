#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/neighbours measures a reader alone and beside a writer, on the files and through nbdloopd.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/neighbours
require python3 fio
[[ " $(fio --enghelp 2>/dev/null | tr -s '\n\t ' ' ') " == *" nbd "* ]] || skip "fio has no nbd engine"
truncate -s 1M "$dir/probe.img"
python3 - "$dir/probe.img" <<'PROBE' || skip "$dir takes no direct I/O"
import os, sys
os.close(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT))
PROBE
export NBDLOOPD
NBDLOOPD=$(command -v nbdloopd)
"$bench" --runs 1 --seconds 0.3 --depth 32 --engines aio --threads 1,2 --image-size 16M --directory "$dir" \
	>"$dir/table.log" 2>"$dir/bench.log" || fail "the bench failed"
number='[0-9][0-9,.]*'
# The dashes of the table are no ASCII.
expect_equal "rows with all figures" "fio on the files | - | -;nbdloopd | aio | 1;nbdloopd | aio | 2" "$(sed 's/–/-/g' "$dir/table.log" |
	sed -nE "s/^\| (.* \| [a-z-]+ \| [0-9-]) \|( $number \/ $number \|){2} $number \($number-$number\) \|( $number \/ $number \|){2} $number \|$/\1/p" |
	paste -sd ';')"
expect_equal "files that it leaves" "" "$(find "$dir" -name 'nbdloop-bench-*')"

# A server that fails is an error with its reason.
printf '#!/bin/sh\necho "no such luck" >&2\nexit 1\n' >"$dir/broken"
chmod +x "$dir/broken"
if "$bench" --servers "$dir/broken" --runs 1 --seconds 0.1 --engines aio --threads 1 --image-size 16M --directory "$dir" \
	>"$dir/table.log" 2>"$dir/bench.log"; then
	fail "a server that fails is no error"
fi
grep "^bench/neighbours: .*no such luck" "$dir/bench.log" >/dev/null || fail "the reason is missing"
