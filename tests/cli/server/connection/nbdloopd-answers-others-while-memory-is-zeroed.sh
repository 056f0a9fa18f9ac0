#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The event loop itself moves the bytes of an image in memory, but not all at once: while one client
# has a large range zeroed, the loop serves the clients of another image, and the second SIGTERM
# ends the server.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
mount_at "$dir/memory" -t tmpfs -o size=300m tmpfs
image=$dir/memory/slow.img
truncate -s 1M "$dir/fast.img"

others_are_answered() # FAST-ENGINE
{
	rm -f "$image"
	truncate -s 256M "$image"
	# Zeroing the whole range takes six seconds.
	preload slow_file SLOW_WRITE=3000
	start_nbdloopd --threads=1 --export slow="$image" --export fast="$dir/fast.img,engine=$1"
	timeout "$((60 * time_factor))" "$python" "$own_python" "$sock" "$pid" "$image" >"$dir/client.log" 2>&1 ||
		fail "in memory, with $1 for the other image: $(tail -n 1 "$dir/client.log")"
	end_process server
	[ "$(du -m "$image" | cut -f 1)" -lt 255 ] || fail "it ended only when all was zeroed"
}

others_are_answered io_uring
others_are_answered aio
