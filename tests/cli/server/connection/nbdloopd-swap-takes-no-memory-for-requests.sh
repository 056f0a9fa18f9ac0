#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd --swap allocates all the memory that requests need before the first request arrives, also
# for an export that is added while the server runs: after that, no request makes a system call for
# memory or a thread, nor touches a page that isn't resident; a user who lacks the capability is
# refused. (PR_SET_IO_FLUSHER and the out-of-memory killer's score need CAP_SYS_RESOURCE; here
# strace makes these calls seem to work.)
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "locked memory"
require_python_nbd
require strace setpriv
image=$dir/disk.img
truncate -s 64M "$image" "$dir/added.img"

server_prefix=(setpriv --bounding-set -sys_resource --inh-caps -sys_resource)
refuse_nbdloopd 1 --swap "$image"
expect_log "swap: PR_SET_IO_FLUSHER: .*CAP_SYS_RESOURCE"

! grep -qE '^S\["SANITIZER_CFLAGS"\]="[^"]' "$top_builddir/config.status" || skip "sanitizers take memory of their own"

tracer_of_start()
{
	sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$pid/status"
}

not_traced()
{
	[ "$(tracer_of_start)" = 0 ]
}

start_swap_server()
{
	# Among the main thread's calls, the first prctl() and the first write() need the
	# capability.
	server_prefix=(strace -D -qq -o "$dir/start" -e trace=prctl,write -e inject=prctl:retval=0:when=1
		-e inject=write:retval=5:when=1)
	start_nbdloopd --swap --threads=2 --memory=64M --control="$dir/control.sock" --export="disk=$image,engine=$engine"
	grep -q "PR_SET_IO_FLUSHER.*INJECTED" "$dir/start" || fail "the first prctl() was another one"
	grep -q '"-1000".*INJECTED' "$dir/start" || fail "the first write() was another one"
	kill -KILL "$(tracer_of_start)"
	wait_until "the end of strace" not_traced
	expect_log "swap=on: memory locked"
	control "$dir/control.sock" "add added=$dir/added.img,engine=$engine" >"$dir/answer" || fail "add: $(cat "$dir/answer")"
}

# Now and then the kernel moves a locked page elsewhere (compaction), and a thread that needs it at
# that moment has a page fault. So a server's own faults are those of each of several servers.
requests_take_no_memory()
{
	local servers=1
	start_swap_server
	until "$python" "$own_python" "$sock" "$pid" "$dir/calls" >"$dir/client.log" 2>&1; do
		[ $servers -lt 4 ] && grep -q ' page faults$' "$dir/client.log" || fail "requests take memory"
		stop_server
		start_swap_server
		servers=$((servers + 1))
	done
	stop_server
}

each_engine requests_take_no_memory
