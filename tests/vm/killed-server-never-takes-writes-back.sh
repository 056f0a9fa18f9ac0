#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 512M
# A server is killed while it writes, and started again: a client that reconnects continues without
# an error, and older data never replaces acknowledged data.
#
# That is not a matter of course. The kernel sends the requests that were in flight again when a
# connection has died. So the new server carries out and acknowledges the same write, and newer
# writes follow. Meanwhile the killed server's write may still be in the kernel, and arrive last.
#
# This test forces that order: the killed server's writes are throttled by its control group, and
# the new server's are not. The lock of the image keeps the two apart, because the killed server
# holds it until its last write is done. With lock=off, a block goes back within seconds.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/late_writes.sh"

# Unlike kill_server, this does not wait for the server's end: a thread may be in the kernel for as
# long as its write takes.
kill_and_leave()
{
	process_pids[killed]=${process_pids[server]}
	unset "process_pids[server]"
	kill -KILL "${process_pids[killed]}" || fail "the server is gone already"
}

goes_on_after_kill() # DIRECT-IO
{
	server_arguments=(-t 16 -- "$dir/disk/disk.img" engine="$engine" direct-io="$1")
	make_written_image
	throttle max
	start_in_slow_group
	start_load
	throttle $((160 << 10))
	# By then all threads have their next write in flight: 2 MiB, 13 seconds.
	sleep 3
	kill_and_leave
	start_again
	wait_until "the client reconnects" has_reconnected
	must_go_on "after the server was started again"
	# By now the throttled writes are on the drive.
	sleep 5
	must_go_on "to the end"
	end_load "$1"
	wait "${process_pids[killed]}" 2>/dev/null || true
	unset "process_pids[killed]"
}

# Other engines' writes end as io_uring's do.
engine=io_uring
goes_on_after_kill on
engine=auto
goes_on_after_kill off
