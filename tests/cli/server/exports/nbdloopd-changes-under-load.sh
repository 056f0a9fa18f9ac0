#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While clients on several threads write and verify, and others come and go, exports are added and
# removed, the status is requested, direct I/O is switched, rules change, clients are disconnected,
# and sizes and the configuration are read again: no request fails, no byte is wrong. Under
# valgrind, nothing leaks.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
socket=$dir/control
truncate -s 1M "$dir/other.img"


changes()
{
	local server_pid
	rm -f "$dir/disk.img"
	truncate -s 16M "$dir/disk.img"
	printf '%s\n' '[server]' 'threads = 4' '[export disk]' "file = $dir/disk.img" "engine = $engine" >"$dir/conf"
	start_nbdloopd --config "$dir/conf" --control "$socket"
	server_pid=$pid
	spawn load "$python" "$lib/verify_load.py" "nbd+unix:///disk?socket=$sock" 6 $((100 * time_factor))
	quietly "$python" "$own_python" "$sock" "$socket" "$server_pid" "$dir"
	end_process load TERM
	expect_equal "status of the load" 0 "$end_status"
	stop_server
}

[ -n "${NBDLOOP_VALGRIND-}" ] || each_engine changes
# Use the event loop without io_uring: the one with io_uring waits in a system call for which
# valgrind stops all threads.
forbid_io_uring
engines=${engines/io_uring}
[[ $engines =~ [a-z] ]] || engines=threads
each_engine changes
