# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Killing the server of a device while fio writes and verifies in a file system on it; to be read
# after nbdloop.sh.

require fio
tree=$(dirname "$0")/tree.py
image=$dir/disk.img

another_server() # PID
{
	local now
	now=$(pgrep -x nbdloopd) && [ "$now" != "$1" ]
}

kill_the_server() # SIGNAL
{
	local pid
	pid=$(pgrep -x nbdloopd)
	kill -"$1" "$pid"
	wait_until "there is another server than $pid" another_server "$pid"
}

# Kills the server this many times, at any moment, also when the next server has just started; each
# third time with SIGTERM, as at the end of a session.
kill_servers() # TIMES
{
	local i signals=(KILL TERM KILL)
	for ((i = 0; i < $1; i++)); do
		sleep "$((i % 2)).$((RANDOM % 10))"
		! process_gone "${process_pids[load]}" || fail "fio has ended after $i of $1 kills"
		kill_the_server "${signals[i % 3]}"
	done
	# Kill a server that has just taken over, while requests of its predecessor wait to be
	# resent.
	quietly nbdloop replace-server "$device"
	kill_the_server KILL
}

survives() # KILLS OPTION...
{
	local kills=$1
	shift
	mark_kernel_log
	rm -f "$image"
	truncate -s 96M "$image"
	nbdloop_attach "$@" "$image"
	# Use 1 second, not 5: requests that were in flight are resent after this time.
	[ "$#" -gt 0 ] || echo 1000 >"/sys/block/${device#/dev/}/queue/io_timeout"
	quietly mkfs.ext4 -q "$device"
	mount_at "$dir/mounted" "$device"
	mkdir "$dir/mounted/tree"
	quietly "$python" "$tree" write "$dir/mounted/tree" 1 60
	start_load --directory="$dir/mounted" --size=24M --bsrange=4k-128k --iodepth=8 --fsync=32
	kill_servers "$kills"
	end_load
	! grep -E 'verify:|fio: .*error|err=[^ ]*[1-9]' "$dir/load.log" || fail "fio has found an error"
	quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
	unmount "$dir/mounted"
	nbdloop_detach "$device"
	expect_nothing_left
	quietly e2fsck -f -n "$image"
	! kernel_log | grep -E 'I/O error|EXT4-fs (error|warning)' || fail "the kernel had I/O errors"
	echo "${*:-one connection}: $kills kills, $SECONDS s"
}
