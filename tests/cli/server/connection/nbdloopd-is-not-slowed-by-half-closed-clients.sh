#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that take no replies, have filled their sockets and send no more don't slow down other
# clients of their thread, although much data is unread: the processor time per request stays about
# the same.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"

stays_fast() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --port="$port" --address=127.0.0.1 "$image"
	"$python" "$own_python" "$port" "$pid" >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
	stop_server
}

stays_fast io_uring
forbid_io_uring
stays_fast epoll
