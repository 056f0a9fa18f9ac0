#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server disconnects a client that takes none of its replies while others wait for the memory
# that these replies hold, even if the client continues to send, over a unix socket and over TCP;
# likewise a client that sends a byte of its data now and then. Meanwhile other clients have room
# for one request of the largest size that the kernel's client sends.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
limit=$((2 * time_factor)) # seconds
truncate -s 64M "$image"

ends_who_trickles() # EVENT-LOOP
{
	local port where
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=32M --stuck-limit=2 --port="$port" --address=127.0.0.1 "$image"
	for where in "$sock" "$port"; do
		"$python" "$own_python" replies "$where" >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
	done
	expect_equal "clients that were disconnected" 4 \
		"$(grep -c 'disconnected: took too little of its replies in 2 seconds, less than 64 KiB/s, while others' "$log")"
	stop_server
}

# Four clients take all of the memory with writes of 32 MiB.
ends_who_sends_little() # EVENT-LOOP
{
	local port where
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=128M --stuck-limit=$limit --port="$port" --address=127.0.0.1 \
		--control="$dir/control" "$image"
	for where in "$sock" "$port"; do
		"$python" "$own_python" data "$where" "$dir/control" "$log" >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
	done
	expect_equal "clients that sent little" 7 \
		"$(grep -c "disconnected: sent too little of the data of a write in $limit seconds, less than 64 KiB/s, while" "$log")"
	stop_server
}

ends_who_trickles io_uring
ends_who_sends_little io_uring
forbid_io_uring
ends_who_trickles epoll
ends_who_sends_little epoll
