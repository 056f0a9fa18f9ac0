#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 512M
# A server is killed while it writes, and started again: a client that reconnects goes on without an
# error, and what was acknowledged is never replaced by older data.
#
# That is not a matter of course.  The kernel sends again what was under way when a connection died;
# so the same write is carried out by the new server, acknowledged, and followed by newer ones,
# while the one of the killed server may still be on its way in the kernel, and come last.  Here it
# is: the killed server's writes are throttled by its control group, the new server's aren't.  What
# keeps them apart is the lock of the image, which the killed server holds until its last write is
# done: with lock=off, a block goes back within seconds.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/late_writes.sh"

# Does not wait for its end, as kill_server does: a thread of it may be in the kernel for as long as
# its write takes.
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
	# All threads have their next write under way by then: 2 MiB, 13 seconds.
	sleep 3
	kill_and_leave
	start_again
	wait_until "the client reconnects" has_reconnected
	must_go_on "after the server was started again"
	# What was throttled is on the drive now at the latest.
	sleep 5
	must_go_on "to the end"
	end_load "$1"
	wait "${process_pids[killed]}" 2>/dev/null || true
	unset "process_pids[killed]"
}

# AIO's writes end as io_uring's do.
engines=${engines/aio/}
each_engine goes_on_after_kill on
engine=auto
goes_on_after_kill off
