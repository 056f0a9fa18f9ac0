#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With --swap, all threads of nbdloopd, including those that io_uring creates for it, have the
# lowest real-time priority; where that isn't permitted, the log says so and the server works all
# the same. (tests/vm/swap-on-own-image-makes-progress.sh tests what the priority is good for.
# PR_SET_IO_FLUSHER and the out-of-memory killer's score need CAP_SYS_RESOURCE; here strace makes
# these calls seem to work.)
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "locked memory"
require strace chrt qemu-io
! grep -qE '^S\["SANITIZER_CFLAGS"\]="[^"]' "$top_builddir/config.status" || skip "sanitizers take memory of their own"
image=$dir/disk.img
truncate -s 64M "$image"
# Among the main thread's calls, the first prctl() and the first write() need the capability.
faked=(strace -D -qq -o "$dir/start" -e trace=prctl,write,sched_setscheduler -e inject=prctl:retval=0:when=1
	-e inject=write:retval=5:when=1)

tracer()
{
	sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$pid/status"
}

not_traced()
{
	[ "$(tracer)" = 0 ]
}

# The server starts under strace, which fakes these results and is gone afterwards: the leak
# sanitizer can't end a traced process.
start_faked() # STRACE-OPTION... -- OPTION...
{
	server_prefix=("${faked[@]}")
	while [ "$1" != -- ]; do
		server_prefix+=("$1")
		shift
	done
	shift
	start_nbdloopd --swap --threads=2 --memory=32M "$@" "$image"
	kill -KILL "$(tracer)"
	wait_until "the end of strace" not_traced
}

# Prints the policy and priority of the threads, each distinct pair once: 2 is SCHED_RR.
priorities()
{
	sed 's/.*) //' "/proc/$pid/task"/*/stat | awk '{print $39 ":" $38}' | sort -u
}

has_priority()
{
	start_faked -- --engine="$engine" --direct-io=off
	quietly qemu-io -f raw -c "write -P 1 0 4M" -c flush -c "read -P 1 0 4M" "$uri"
	if chrt -r 1 true 2>"$dir/chrt.log"; then
		expect_equal "policies and priorities of the threads ($engine)" 2:1 "$(priorities | tr '\n' ' ' | sed 's/ $//')"
		reject_log priority
	else
		expect_log 'warning: no real-time priority: .*CAP_SYS_NICE'
	fi
	stop_server
}

each_engine has_priority

start_faked -e inject=sched_setscheduler:error=EPERM --
expect_log 'warning: no real-time priority: Operation not permitted; .*CAP_SYS_NICE'
expect_equal size 67108864 "$(nbdinfo --size "$uri")"
expect_equal "policies and priorities of the threads" 0:0 "$(priorities)"
stop_server
