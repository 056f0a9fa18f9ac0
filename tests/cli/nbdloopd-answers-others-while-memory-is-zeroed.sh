#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The event loop itself moves the bytes of an image in memory, but not all at once: while one client
# has a large range zeroed, the loop serves the clients of another image, and the second SIGTERM
# ends the server.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
cc=${CC:-cc}
# shellcheck disable=SC2086 # it may have arguments
$cc -D_GNU_SOURCE -shared -fPIC -o "$dir/slow_file.so" "$lib/slow_file.c"
mount_at "$dir/memory" -t tmpfs -o size=300m tmpfs
image=$dir/memory/slow.img
truncate -s 1M "$dir/fast.img"

others_are_answered() # FAST-ENGINE
{
	rm -f "$image"
	truncate -s 256M "$image"
	# Zeroing the whole range takes six seconds. The address sanitizer must be the first
	# library.
	server_prefix=(env SLOW_WRITE=3000 LD_PRELOAD="$dir/slow_file.so"
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0")
	start_nbdloopd --threads=1 --export slow="$image" --export fast="$dir/fast.img,engine=$1"
	timeout "$((60 * time_factor))" "$python" - "$sock" "$pid" "$image" <<'EOF2' >"$dir/client.log" 2>&1 ||
import os, signal, sys
import nbd
from client import connect
sock, pid, image = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def allocated():
    return os.stat(image).st_blocks * 512

slow, fast = connect(sock, "slow"), connect(sock, "fast")
zero = slow.aio_zero(256 << 20, 0, flags=nbd.CMD_FLAG_NO_HOLE)
while allocated() < 1 << 20:
    slow.poll(5)
for i in range(5):
    fast.pread(4096, i * 4096)
connect(sock, "fast").shutdown()
slow.poll(0)
assert not slow.aio_command_completed(zero), "the other client had to wait for all of it"
os.kill(pid, signal.SIGTERM)
assert allocated() < 250 << 20, "too late to see that it ends before"
os.kill(pid, signal.SIGTERM)
EOF2
		fail "in memory, with $1 for the other image: $(tail -n 1 "$dir/client.log")"
	end_process server
	[ "$(du -m "$image" | cut -f 1)" -lt 255 ] || fail "it ended only when all was zeroed"
}

others_are_answered io_uring
others_are_answered aio
