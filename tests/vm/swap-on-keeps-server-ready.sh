#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: memory 1G
# With swap=on, every thread of the server is an I/O flusher, also in the background and after a
# change of user. All memory of the server is locked except for the unused parts of stacks. All
# contexts are created when the first client connects, and their memory is resident. The
# out-of-memory killer spares the server. A user without that permission is refused. So is a server
# that would lock more than half of the memory, which would kill the machine.
#
# The test needs no NBD device, but capabilities that a container's root does not have.
. "$(dirname "$0")/functions.sh"

case $VM_SERVER in
# The number of threads with one client: nbdkit has 16 for the connection, besides its own.
nbdkit) contexts=3 threads=17 ;;
# nbdloopd has one thread that accepts, and one that serves, with a context of its own.
nbdloopd) contexts=1 threads=2 ;;
esac
image=$dir/disk.img
socket=$dir/control
truncate -s 64M "$image"

# 0x80000 PF_MEMALLOC_NOIO and 0x100000 PF_LOCAL_THROTTLE (include/linux/sched.h) are what
# PR_SET_IO_FLUSHER sets; field 9 of stat, the seventh after the name.
threads_that_are_no_io_flushers() # PID
{
	local task flags
	for task in "/proc/$1/task"/*; do
		flags=$(sed 's/.*) //' "$task/stat" | cut -d ' ' -f 7)
		[ $((flags & 0x180000)) -eq $((0x180000)) ] || cat "$task/comm"
	done
}

locked_kib() # PID
{
	sed -n 's/^VmLck:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$1/status"
}

server_is_ready()
{
	rm -f "$image"
	truncate -s 64M "$image"
	start_server "$@" -- "$image" engine="$engine" swap=on contexts=3 depth=4 control="$socket"
	server_pid=$pid
	# A client stays connected, which creates the threads of its connection.
	spawn client "$python" -c "import nbd, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b'x' * 4096, 0)
open(sys.argv[2], 'w').close()
time.sleep(600)" "$uri" "$dir/connected"
	wait_until "a client is connected" test -e "$dir/connected"
	rm "$dir/connected"
	expect_log "swap=on: memory locked"
	expect_equal "swap in the status" true "$(control "$socket" status swap)"
	expect_equal "contexts" $contexts "$(control "$socket" status exports.0.contexts)"
	[ "$(find "/proc/$server_pid/task" -mindepth 1 -maxdepth 1 | wc -l)" -ge $threads ] || fail "the client has no threads"
	expect_equal "threads that are not I/O flushers" "" "$(threads_that_are_no_io_flushers "$server_pid")"
	expect_equal "oom_score_adj" -1000 "$(cat "/proc/$server_pid/oom_score_adj")"
	# The locked memory includes the plugin's 3 contexts of 4 buffers of 128 KiB, or nbdloopd's
	# 32 MiB; but not 16 stacks of 8 MiB.
	[ "$(locked_kib "$server_pid")" -gt 1536 ] || fail "only $(locked_kib "$server_pid") KiB of memory are locked"
	[ "$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB$/\1/p' "/proc/$server_pid/status")" -lt $((64 << 10)) ] ||
		fail "more is in memory than it needs: $(grep Vm "/proc/$server_pid/status")"
	end_process client TERM
	stop_server
}

each_engine server_is_ready

engine=threads
server_prefix=(prlimit --memlock=unlimited)
chown nobody "$dir" "$image"
server_is_ready -u nobody
chown root "$dir"

# refuse_start can't be used: --run starts its command before memory is locked.
refuse_swap() # REGEX [KEY=VALUE...]
{
	local wanted=$1 command
	shift
	server_files
	rm -f "$sock"
	start_command "$dir/refused.pid" -- "$image" swap=on "$@"
	must_fail "${command[@]}"
	grep -qE "$wanted" "$dir/refused.log" || fail "it does not say why: $(cat "$dir/refused.log")"
}

server_prefix=(setpriv --bounding-set -sys_resource)
refuse_swap 'swap(=on)?: .*CAP_SYS_RESOURCE'
server_prefix=(prlimit --memlock=65536 setpriv --bounding-set -ipc_lock)
refuse_swap "the process's memory can't be locked: .*CAP_IPC_LOCK"
server_prefix=()
case $VM_SERVER in
nbdkit) refuse_swap 'MiB would be taken and locked.*contexts=' contexts=64 depth=128 ;;
nbdloopd) refuse_swap 'MiB would be taken and locked.*--memory' memory=1G ;;
esac
