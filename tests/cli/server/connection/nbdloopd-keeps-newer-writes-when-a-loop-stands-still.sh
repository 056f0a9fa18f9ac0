#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client writes while the event loop of its connection stands still, gives up, closes, and sends
# first the same write and then a newer one through the other loop. When the first loop resumes, the
# old write must not overwrite the newer one: whether the loop stood still before it received the
# write (the write is in the socket) or after that; nor when the client sent NBD_CMD_DISC before it
# closed.
. "$(dirname "$0")/../../../lib/functions.sh"

require strace
require_python_nbd
image=$dir/disk.img

# try_once LOOP TCP CALL WHEN GOODBYE: strace stops the loop for two seconds when it enters or
# leaves the call. Returns false when the loop resumed too early.
try_once()
{
	local status=0
	local what="$1, tcp $2, $4 of $3, goodbye $5" server_listen=() server_prefix=() address=$dir/server.sock
	if [ "$1" = epoll ]; then
		forbid_io_uring
	fi
	if [ "$2" = yes ]; then
		address=$(free_port)
		server_listen=(--address 127.0.0.1 --port "$address")
	fi
	truncate -s 0 "$image"
	truncate -s 4M "$image"
	rm -f "$dir/calls"
	start_nbdloopd --threads=2 "${server_listen[@]}" "$image"
	test "$2" = yes || address=$sock
	"$python" "$own_python" "$address" "$pid" "$3:delay_$4" "$dir/calls" "$5" >"$dir/client.log" 2>&1 || status=$?
	[ "$status" != 3 ] || { stop_server && return 1; }
	[ "$status" = 0 ] || fail "wrong when the loop stands still ($what)"
	grep -q DELAYED "$dir/calls" || fail "the loop did not stand still ($what)"
	expect_log 'gave up on this connection'
	stop_server
}

stands_still() # As above.
{
	local _
	for _ in 1 2 3 4 5; do
		! try_once "$@" || return 0
	done
	fail "the loop never stood still for long enough ($*)"
}

for tcp in no yes; do
	stands_still io_uring "$tcp" io_uring_enter enter no
	stands_still io_uring "$tcp" io_uring_enter exit no
	stands_still epoll "$tcp" recvfrom enter no
	stands_still epoll "$tcp" recvfrom exit no
done
stands_still io_uring no io_uring_enter exit yes
stands_still epoll no recvfrom enter yes
