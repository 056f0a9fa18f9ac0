#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server disconnects a client that takes none of its replies, or stops in the middle of a write,
# when others wait for the memory that this client holds, and the log says so. A client for whom
# nobody waits may take its time, and so may a slow client.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"
limit=$((3 * time_factor)) # seconds

ends_stuck_clients() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=32M --stuck-limit=$limit --port="$port" --address=127.0.0.1 \
		--control="$dir/control" "$image"
	"$python" "$own_python" "$sock" "$port" "$dir/control" $limit >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
	expect_equal "clients that were disconnected" 2 "$(grep -c disconnected "$log")"
	expect_log "disconnected: took too little of its replies in $limit seconds, less than 64 KiB/s, while others wait for memory"
	expect_log "disconnected: sent too little of the data of a write in $limit seconds, less than 64 KiB/s, while others wait for memory"
	stop_server
}

ends_stuck_clients io_uring
forbid_io_uring
ends_stuck_clients epoll
