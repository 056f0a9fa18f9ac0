#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Space that is discarded on /dev/nbd0 becomes free in the image's file system: by fstrim after
# files were deleted, by a mount with discard, by blkdiscard. The remaining files are intact,
# discarded blocks read as zeroes, and discarding a part of a block leaves the rest of it alone.
# With discard=off, the device can't discard and the image keeps its space.
. "$(dirname "$0")/functions.sh"

require fstrim blkdiscard mkfs.ext4
tree=$(dirname "$0")/tree.py
image=$dir/disk.img

used_mib() # what the image takes of its file system
{
	sync "$image"
	echo $(($(blocks_used "$image") / 2048))
}

expect_used() # WHAT LEAST MOST
{
	local seen
	seen=$(used_mib)
	[ "$seen" -ge "$2" ] && [ "$seen" -le "$3" ] ||
		fail "$1: the image uses $seen MiB of its file system, not $2 to $3"
}

fill() # FILE MIB
{
	"$python" - "$1" "$2" <<-'END'
		import os, sys
		with open(sys.argv[1], "wb") as file:
		    for _ in range(int(sys.argv[2])):
		        file.write(b"\xa5" * (1 << 20))
		    os.fsync(file.fileno())
	END
}

trims() # BLOCK-SIZE
{
	mark_kernel_log
	rm -f "$image"
	truncate -s 256M "$image"
	start_server -- "$image"
	attach /dev/nbd0 -b "$1" -C 2
	quietly mkfs.ext4 -q -b 4096 -E lazy_itable_init=0 /dev/nbd0
	mount_at "$dir/mounted" -t ext4 -o nodiscard /dev/nbd0
	fill "$dir/mounted/gone" 30
	mkdir "$dir/mounted/stays"
	quietly "$python" "$tree" write "$dir/mounted/stays" 1 60
	fill "$dir/mounted/gone-too" 30
	sync
	local before
	before=$(used_mib)
	[ "$before" -ge 60 ] || fail "60 MiB of files, and the image uses only $before"
	rm "$dir/mounted/gone" "$dir/mounted/gone-too"
	sync
	expect_used "without fstrim" $((before - 5)) $((before + 5))
	quietly fstrim "$dir/mounted"
	expect_used "after fstrim" 1 $((before - 57))

	quietly mount -o remount,discard "$dir/mounted"
	fill "$dir/mounted/gone" 20
	expect_used "with a new file" 20 $((before - 35))
	rm "$dir/mounted/gone"
	sync # commits the deletion, with which the discard goes out
	wait_until "the space of the deleted file is free" space_is_free $((before - 55))

	unmount "$dir/mounted"
	quietly e2fsck -f -n /dev/nbd0
	mount_at "$dir/mounted" -t ext4 -o ro /dev/nbd0
	quietly "$python" "$tree" check "$dir/mounted/stays" 1 60
	unmount "$dir/mounted"
	quietly blkdiscard -f /dev/nbd0
	expect_used "after blkdiscard" 0 0
	detach /dev/nbd0
	stop_server
	quietly cmp -n $((256 << 20)) "$image" /dev/zero
	expect_quiet_kernel
	echo "fstrim, blocks of $1: $SECONDS s"
}

space_is_free() # MOST
{
	[ "$(used_mib)" -le "$1" ]
}

# Discards a few ranges of a device full of one byte; all other bytes must be unchanged.
discards_exactly() # ENGINE DIRECT-IO
{
	mark_kernel_log
	rm -f "$image"
	fill "$image" 24
	start_server -- "$image" engine="$1" direct-io="$2"
	attach /dev/nbd0 -b 512 -C 2
	"$python" - /dev/nbd0 <<-'END' || fail "discarding does not do what it should ($1, direct-io=$2)"
		import fcntl, os, struct, sys
		BLKDISCARD, BLKFLSBUF = 0x1277, 0x1261
		MIB = 1 << 20
		ranges = [(MIB, 4096), (2 * MIB, 512), (3 * MIB + 512, 512), (4 * MIB + 3584, 1024),
		          (5 * MIB - 512, 4096 + 1024), (6 * MIB + 512, MIB), (8 * MIB, 12 * MIB), (24 * MIB - 512, 512)]
		fd = os.open(sys.argv[1], os.O_RDWR)
		for start, size in ranges:
		    fcntl.ioctl(fd, BLKDISCARD, struct.pack("=QQ", start, size))
		fcntl.ioctl(fd, BLKFLSBUF)
		seen = os.pread(fd, 24 * MIB, 0)
		kept, zeroed = b"\xa5" * 512, bytes(512)
		at = 0
		for start, size in ranges + [(24 * MIB, 0)]:
		    if seen[at:start] != b"\xa5" * (start - at):
		        sys.exit(f"between {at} and {start}, what nobody discarded is gone")
		    at = start + size
		    for i in range(start, at, 512):
		        sector = seen[i : i + 512]
		        # A part of a block may keep its bytes or become zero, and nothing else.
		        whole = start <= i & ~4095 and (i & ~4095) + 4096 <= at
		        if sector != zeroed and (whole or sector != kept):
		            sys.exit(f"the discarded sector at {i} is not zeroed")
	END
	detach /dev/nbd0
	stop_server
	expect_used "after discarding 13 MiB of 24" 10 11
	expect_quiet_kernel
	echo "ranges, $1, direct-io=$2: $SECONDS s"
}

keeps_with_discard_off()
{
	rm -f "$image"
	fill "$image" 24
	start_server -- "$image" discard=off
	attach /dev/nbd0
	expect_equal "discard_max_bytes" 0 "$(cat /sys/block/nbd0/queue/discard_max_bytes)"
	must_fail blkdiscard -f /dev/nbd0
	detach /dev/nbd0
	stop_server
	expect_used "with discard=off" 24 25
}

trims 512
trims 4096
discards_exactly io_uring on
discards_exactly threads off
keeps_with_discard_off
