#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's control socket reports the status as JSON, with connections and their clients, and
# changes direct I/O, the size and the exports while clients are connected.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
socket=$dir/control

status_is_right()
{
	rm -f "$image"
	# The data that is read below must not be a hole.
	head -c 10M /dev/zero >"$image"
	start_nbdloopd --control "$socket" --threads=2 --engine="$engine" --direct-io=on --offset=1M --sizelimit=11M --depth=5 \
		--export "disk=$image,description=of mine"
	expect_equal "mode of the socket" 600 "$(stat -c %a "$socket")"
	"$python" "$own_python" "$uri" "$socket" "$image" "$pid" "$engine" >"$dir/check.log" 2>&1 || fail "wrong status"
	stop_server
	[ ! -e "$socket" ] || fail "the server left its control socket behind"
}

each_engine status_is_right

# Delay only the flush, by 50 ms.
require strace
start_nbdloopd --control "$socket" --threads=1 --engine=threads "$image"
trace -e trace=fdatasync -e inject=fdatasync:delay_enter=50000
"$python" - "$uri" "$socket" <<'EOF2' >"$dir/check.log" 2>&1 || fail "wrong latencies"
import sys
from client import connect
from control import Control
h = connect(sys.argv[1])
h.pread(512, 0)
h.flush()
latency = Control(sys.argv[2]).export()["latency_us"]
# The 17th bucket counts latencies of 32,768 to 65,535 microseconds.
assert 17 <= len(latency["flush"]) < 22 and sum(latency["flush"]) == 1, latency
assert sum(latency["read"]) == 1, latency
EOF2
untrace
stop_server

ask() # REQUEST [PATH.IN.THE.ANSWER]
{
	control "$socket" "$@"
}

refuses() # REQUEST REGEX
{
	ask "$1" error >"$dir/answer.log" || fail "no error: $1"
	grep -qE "$2" "$dir/answer.log" || fail "the answer to '$1' doesn't tell: $2"
}

size_of() # EXPORT
{
	nbdinfo --size "nbd+unix:///$1?socket=$sock" 2>"$dir/nbdinfo.log"
}

rm -f "$image"
truncate -s 10M "$image" "$dir/second.img"
start_nbdloopd --control "$socket" --sector-size=1024 --export "disk=$image"

# A connected client keeps its size; the next client sees the new one.
truncate -s 20M "$image"
expect_equal "size before" 10485760 "$(ask status exports.0.size)"
expect_equal "size in the answer" 20971520 "$(ask resize size)"
expect_equal "size after" 20971520 "$(size_of disk)"

direct=$(ask status exports.0.direct_io)
if [ "$direct" = true ]; then
	expect_equal "direct I/O" false "$(ask 'set direct-io=off' direct_io)"
	nbdinfo --can cache "$uri" || fail "without direct I/O, clients should be offered to fill the cache"
	expect_equal "direct I/O" true "$(ask 'set direct-io=on export=disk' direct_io)"
	nbdinfo --can cache "$uri" && fail "with direct I/O, there is no cache to offer"
fi

expect_equal "name in the answer" "second" "$(ask "add second=$dir/second.img,read-only=on" name)"
expect_equal "size of the second" 10485760 "$(size_of second)"
expect_equal "an option of the server for the second" 1024 "$(ask status exports.1.sector_size)"
expect_equal "an option of its own" true "$(ask status exports.1.read_only)"
refuses "add second=$image" 'export "second": there is one of that name already'
refuses "add third=$image" 'same image as that of the export "disk"'
refuses "add third=$dir/none" 'none: No such file'
refuses "add third=$dir/none,colour=blue" 'unknown option colour'
refuses 'resize' 'which export'
refuses 'resize export=third' 'no such export'
refuses 'remove export=third' 'no such export'
expect_equal "the removed one" second "$(ask 'remove export=second' removed)"
size_of second && fail "the removed export can still be used"
expect_equal "exports" null "$(ask status exports.0.description)"
ask status exports.1 >"$dir/answer.log" 2>&1 && fail "the removed export is in the status"
expect_equal "name in the answer" "second" "$(ask "add second=$dir/second.img" name)"
stop_server
