#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: servers nbdkit nbdloopd
# vm: drive 512M
# A disk is so slow for a while that the kernel's client loses its patience, takes the connection
# for dead, and sends its writes again over a new one.  Nothing that was acknowledged there is
# replaced by the first try, which is still under way and comes last.
#
# Here the server's writes are throttled by its control group, and it is taken out of that group
# when they are under way.  A server that carries out overlapping writes of two connections side by
# side lets blocks go back within seconds.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/late_writes.sh"
# Longer than it takes until all writes are under way and the server is out of the group, or the
# second tries are as slow as the first.
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
	# All threads have their next write under way by then: 2 MiB, 20 seconds.
	sleep 2
	for process in $(cat $groups/slow/cgroup.procs); do
		echo "$process" >$groups/cgroup.procs
	done
	! grep -q dead "$dir/netlink.log" || fail "the client lost its patience too soon: nothing would be shown"
	wait_until "the client reconnects" has_reconnected
	must_go_on "after the connection was replaced"
	# What was throttled is on the drive now at the latest.
	for process in 1 2 3 4 5; do
		sleep 4
		must_go_on "to the end"
	done
	end_load "$1"
}

# Whatever the engine, who waits for whom is decided before it.
engine=auto
goes_on_after_timeout on
