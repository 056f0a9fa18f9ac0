#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server removes only a pid file that it has written itself: it removes no other server's file
# when it fails to start, nor when another server has replaced its file since.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image" "$dir/other.img"

fails_to_start() # PIDFILE
{
	# The start fails after the pid file was opened: there are too few descriptors for so many
	# threads.
	(ulimit -n 60 && exec nbdloopd -U "$dir/other.sock" -P "$1" --threads=1000 "$dir/other.img") \
		>"$dir/refused.log" 2>&1 </dev/null && fail "it started a thousand threads with 60 descriptors"
	grep -q 'cannot start thread' "$dir/refused.log" || fail "another error"
}

start_nbdloopd "$image"
fails_to_start "$dir/server.pid"
expect_equal "pid file" "$pid" "$(cat "$dir/server.pid")"
fails_to_start "$dir/none.pid"
[ ! -e "$dir/none.pid" ] || fail "the pid file of a server that didn't start was left behind"

# Another server has written the pid file, and keeps running.
echo 1 >"$dir/server.pid"
stop_server
expect_equal "pid file" 1 "$(cat "$dir/server.pid")"

# Another server has replaced the pid file, too.
server=second
start_nbdloopd "$image"
rm "$dir/second.pid"
echo "$pid" >"$dir/second.pid"
stop_server
[ -e "$dir/second.pid" ] || fail "the pid file of another server was removed"

# The server removes its own pid file.
server=third
start_nbdloopd "$image"
stop_server
[ ! -e "$dir/third.pid" ] || fail "the pid file was left behind"
