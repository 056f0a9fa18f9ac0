#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server refuses or disconnects clients that break the protocol or take as much as they can get,
# and an honest client on the same thread doesn't notice: with the event loop on io_uring, and
# without.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

withstands() # EVENT-LOOP
{
	rm -f "$image"
	truncate -s 128M "$image"
	start_nbdloopd --threads=1 --memory=64M --handshake-limit=3 "$image"
	"$python" "$own_python" "$sock" "$pid" $((128 << 20)) $((64 << 20)) >"$dir/client.log" 2>&1 ||
		fail "the event loop on $1 does not withstand it"
	expect_log 'disconnected: the client set a flag that is not known'
	[ "$(wc -l <"$log")" -lt 60 ] || fail "the log grows with each hostile client"
	stop_server
}

withstands io_uring
forbid_io_uring
withstands epoll
