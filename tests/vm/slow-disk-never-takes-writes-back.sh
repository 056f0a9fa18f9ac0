#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: servers nbdloopd
# vm: drive 512M
# A disk is so slow for a while that the kernel's client times out, gives the connection up, and
# sends its writes again over a new one. The first attempts are still in flight, and arrive last.
# They replace no data that was acknowledged on the new connection.
#
# The server's writes are throttled by its control group, and the server leaves that group when they
# are in flight. A server that carries out overlapping writes of two connections concurrently lets
# blocks go back within seconds. The plugin orders writes by the same code (engine/io/range.h), and
# killed-server-never-takes-writes-back tests it.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/late_writes.sh"
# The timeout is longer than the time until all writes are in flight and the server has left the
# group; otherwise the second attempts would be as slow as the first.
timeout=6

goes_on_after_timeout() # DIRECT-IO
{
	local process
	make_written_image
	throttle max
	server_arguments=(-t 16 -- "$dir/disk/disk.img" engine="$engine" direct-io="$1")
	start_in_slow_group
	start_load
	throttle $((100 << 10))
	# By then all threads have their next write in flight: 2 MiB, 20 seconds.
	sleep 2
	for process in $(cat $groups/slow/cgroup.procs); do
		echo "$process" >$groups/cgroup.procs
	done
	! grep -q dead "$dir/netlink.log" || fail "the client lost its patience too soon: nothing would be shown"
	wait_until "the client reconnects" has_reconnected
	must_go_on "after the connection was replaced"
	# By now the throttled writes are on the drive.
	for process in 1 2 3 4 5; do
		sleep 4
		must_go_on "to the end"
	done
	end_load "$1"
}

# Writes are put in order before they reach the engine, so one engine is enough.
engine=auto
goes_on_after_timeout on
