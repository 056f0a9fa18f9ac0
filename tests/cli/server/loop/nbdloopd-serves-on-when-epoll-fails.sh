#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An event loop on epoll whose Nth epoll_ctl() fails, or every one from the Nth on, serves its
# clients, reports the failure, and ends when it is told to.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img
truncate -s 16M "$image"

serves_and_ends() # WHEN
{
	# strace traces the server to its end, where the leak sanitizer can't work.
	server_prefix=(env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
		"$(lib_program forbid_syscall)" io_uring_setup=EPERM --
		strace -D -f -qq -o "$dir/calls" -e trace=epoll_ctl -e inject=epoll_ctl:error=ENOMEM:when="$1")
	start_nbdloopd --threads=1 "$image"
	timeout $((60 * time_factor)) "$python" - "$uri" <<'EOF2' >"$dir/client.log" 2>&1 || fail "no service with epoll_ctl() $1 failing"
import os, sys, nbd
data = os.urandom(1 << 20)
for n in range(3):
    one, two = nbd.NBD(), nbd.NBD()
    one.connect_uri(sys.argv[1])
    two.connect_uri(sys.argv[1])
    one.pwrite(data, n << 20)
    one.flush()
    assert two.pread(len(data), n << 20) == data
    one.shutdown()
    two.shutdown()
EOF2
	stop_server
	if grep -q INJECTED "$dir/calls"; then
		expect_log "event loop: epoll_ctl: Cannot allocate memory; trying again"
		expect_equal "messages" 1 "$(grep -c "Cannot allocate memory" "$log")"
	elif [ "$1" = 1 ]; then
		fail "epoll_ctl() was not called"
	fi
}

for when in 1 2 3 4 5 6 1+ 4+; do
	serves_and_ends $when
done
