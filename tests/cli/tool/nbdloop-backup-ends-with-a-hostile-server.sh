#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that has exbibytes, or a map of single bytes, neither keeps nbdloop backup busy for ever
# nor fills its memory: it refuses what would take for ever, and copies what is too finely divided
# as a whole.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require python3 cmp

serve() # NAME SIZE ENTRIES
{
	spawn "$1" python3 "$own_python" "$dir/$1.sock" "$2" "$3"
	wait_until "the server $1 listens" listens "$dir/$1.sock"
}

refused() # NAME REGEX
{
	must_fail nbdloop backup "nbd+unix:///?socket=$dir/$1.sock" "$dir/copy.img"
	grep -q "$2" "$dir/refused.log" || fail "the error is: $(cat "$dir/refused.log")"
	[ ! -e "$dir/copy.img" ] || fail "there is a copy"
	end_process "$1" KILL
}

serve huge $((1 << 62)) 1
refused huge "has 4611686018427387904 bytes; nbdloop copies at most"
serve slow $((1 << 40)) 1
refused slow "fewer than 4096 bytes of base:allocation in each of 65536 answers"

serve fine $((1 << 20)) 8192
quietly nbdloop backup "nbd+unix:///?socket=$dir/fine.sock" "$dir/copy.img"
truncate -s 1M "$dir/zeroes"
quietly cmp "$dir/zeroes" "$dir/copy.img"
end_process fine KILL
