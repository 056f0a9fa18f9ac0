#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server whose first export doesn't use io_uring (an image in memory, another engine) has event
# loops without a ring. Such a server still serves an export on io_uring that is added later, and
# ends when it is told to.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdcopy
[ -w /dev/shm ] || skip "/dev/shm is not there for images in memory"
memory=$(mktemp /dev/shm/XXXXXXXX.img)
on_exit rm -f "$memory"
truncate -s 8M "$memory"
head -c 8M /dev/urandom >"$dir/data"
socket=$dir/control

added_is_served() # FIRST-EXPORT
{
	local second
	truncate -s 0 "$dir/second.img"
	truncate -s 8M "$dir/second.img"
	start_nbdloopd --sandbox-path="$dir" --control "$socket" --threads=2 --export "first=$1"
	control "$socket" "add second=$dir/second.img,engine=io_uring" name >"$dir/answer.log" 2>&1 ||
		skip "io_uring isn't allowed here"
	[ "$(cat "$dir/answer.log")" = second ] || skip "no export on io_uring: $(cat "$dir/answer.log")"
	expect_equal "engine of the second" io_uring "$(control "$socket" status exports.1.engine)"
	second="nbd+unix:///second?socket=$sock"
	quietly timeout $((20 * time_factor)) nbdcopy --flush "$dir/data" "$second"
	quietly timeout $((20 * time_factor)) nbdcopy "$second" "$dir/back"
	cmp "$dir/data" "$dir/back" || fail "other bytes came back"
	stop_server
}

added_is_served "$memory"
added_is_served "$memory,engine=aio"
added_is_served "$memory,engine=threads"
