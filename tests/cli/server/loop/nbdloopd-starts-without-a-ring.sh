#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A thread whose ring can't be created, though one could be a moment before, serves its clients with
# epoll, and the server says so.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img
truncate -s 16M "$image"

serves() # ERRNO WHEN
{
	# strace traces the server to its end, where the leak sanitizer can't work. It counts calls
	# for each thread: the main thread tries out whether io_uring works, and each other thread
	# creates its ring with its first call. In the sandbox, one thread makes the rings of all.
	server_prefix=(env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
		strace -D -f -qq -o "$dir/calls" -e trace=io_uring_setup -e inject=io_uring_setup:error="$1":when="$2")
	start_nbdloopd --sandbox=off --threads=2 "$image"
	timeout $((60 * time_factor)) "$python" - "$uri" <<'EOF2' >"$dir/client.log" 2>&1 || fail "no service with io_uring_setup() $2 failing with $1"
import os, sys, nbd
data = os.urandom(1 << 20)
clients = [nbd.NBD() for n in range(4)]
for client in clients:
    client.connect_uri(sys.argv[1])
for n, client in enumerate(clients):
    client.pwrite(data, n << 20)
    client.flush()
for n, client in enumerate(clients):
    assert client.pread(len(data), (3 - n) << 20) == data
    client.shutdown()
EOF2
	stop_server
	grep -q INJECTED "$dir/calls" || [ "$2" != 1 ] || fail "io_uring_setup() was not called"
}

works_here()
{
	start_nbdloopd "$image"
	stop_server
	grep -q 'engine io_uring,' "$log"
}

works_here || skip "no io_uring here"
serves ENOMEM 1
expect_log 'thread 1: no io_uring for its sockets: Cannot allocate memory; it uses epoll, which is slower \(ulimit -l'
expect_log 'thread 2: no io_uring for its sockets: Cannot allocate memory; it uses epoll'
for error in ENOMEM EMFILE; do
	for when in 1 2 3 2+ 3+; do
		serves $error $when
	done
done
serves ENOMEM 2+
expect_log 'all threads use epoll for their sockets, which is slower: io_uring: Cannot allocate memory'
