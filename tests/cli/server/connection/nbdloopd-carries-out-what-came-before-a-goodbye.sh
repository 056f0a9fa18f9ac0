#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a client sends writes and then NBD_CMD_DISC, and closes its socket at once without reading
# any reply, the server carries out those writes, as the NBD specification demands: whether they are
# few, or more than the server receives or begins at once.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img

leaves() # LOOP
{
	local server_prefix=() server_listen=()
	test "$1" = io_uring || forbid_io_uring
	for address in "" "$(free_port)"; do
		server_listen=()
		test -z "$address" || server_listen=(--address 127.0.0.1 --port "$address")
		rm -f "$image"
		truncate -s 16M "$image"
		start_nbdloopd --threads=2 "${server_listen[@]}" "$image"
		quietly "$python" "$own_python" "${address:-$sock}" "$image" || fail "writes are missing ($1, ${address:-unix})"
		reject_log 'gave up on this connection'
		stop_server
	done
}

leaves io_uring
leaves epoll
