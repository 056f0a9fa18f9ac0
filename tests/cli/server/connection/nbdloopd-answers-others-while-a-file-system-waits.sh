#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An event loop never waits for a file system: while a call for one image takes long, for each kind
# of request in turn, the loop serves the clients of another image and closes the connection of a
# vanished client, and the slow request is answered in the end.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
gate=$dir/gate
mount_at "$dir/memory" -t tmpfs -o size=64m tmpfs
mkdir "$dir/disk"
head -c 4M /dev/urandom >"$dir/disk/fast.img"

# Arguments: the engines of both images, which decide whether the loop runs on a ring or on epoll;
# the directory of the slow image; the calls that must have waited.
transfers=yes
others_are_answered() # SLOW-ENGINE FAST-ENGINE DIRECTORY CALL...
{
	local slow_engine=$1 fast_engine=$2 image=$3/slow.img
	shift 3
	rm -f "$image"
	truncate -s 16M "$image"
	printf 'data' | dd of="$image" bs=1M seek=1 conv=notrunc status=none
	preload slow_file SLOW_GATE="$gate" SLOW_TRANSFERS="$transfers"
	start_nbdloopd --threads=1 --direct-io=off --discard=on --control "$dir/control" --export slow="$image,engine=$slow_engine" \
		--export fast="$dir/disk/fast.img,engine=$fast_engine"
	timeout "$((60 * time_factor))" "$python" "$own_python" "$sock" "$gate" "$dir/disk/fast.img" "$image" "$dir/control" "$@" >"$dir/client.log" 2>&1 ||
		{
			rm -f "$gate"
			fail "slow image on $slow_engine in $image, the other one on $fast_engine: $(tail -n 1 "$dir/client.log")"
		}
	expect_log "read of 4096 bytes at offset 15732736 failed: .*: the file ends at byte 15728640"
	stop_server
}

others_are_answered io_uring io_uring "$dir/disk" lseek fstat posix_fadvise
others_are_answered aio aio "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
others_are_answered aio io_uring "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
others_are_answered threads threads "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
# The loop itself copies data in memory.
transfers=no
others_are_answered auto aio "$dir/memory" lseek fstat posix_fadvise fallocate
