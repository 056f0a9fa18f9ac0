#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A large read of a sparse image gets a reply that shows the holes; not so with DF, in small reads,
# or for an image without holes, for which the server makes no look-up either. Data that was written
# and acknowledged is never reported as a hole.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

tells_holes()
{
	rm -f "$image"
	truncate -s 16M "$image"
	printf 'data' | dd of="$image" bs=1M seek=1 conv=notrunc status=none
	start_nbdloopd --engine="$engine" --threads=2 "$image"
	"$python" "$own_python" holes "$uri" >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
	stop_server
}

each_engine tells_holes

require strace
# An image without holes.
dd if=/dev/urandom of="$image" bs=1M count=16 status=none
start_nbdloopd --threads=1 "$image"
spawn strace strace -f -p "$pid" -o "$dir/calls.log" -e trace=lseek,fstat,newfstatat
wait_until "strace looks at the server" grep -q attached "$dir/strace.log"
"$python" "$own_python" none "$uri" "$dir/calls.log" >"$dir/client.log" 2>&1 || fail "system calls for holes of an image without"
# The leak sanitizer can't inspect a traced process.
end_process strace INT
stop_server
