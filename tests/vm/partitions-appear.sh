#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A partitioned image has its partitions as /dev/nbd0p1 and so on: where the table puts them, with
# the bytes that the image has there, to be mounted and written; and are gone when it was detached.
# With a table of 512-byte sectors and one of 4096-byte sectors; in sectors of the other size,
# neither is a table, as the manual says.
#
# The images are made without the server, so one that is off by a sector, leaves the end of the
# image out (where the second copy of the table is) or goes on after a partition's end has nothing
# to show, or damages the neighbour.
. "$(dirname "$0")/functions.sh"

require sgdisk mke2fs
modprobe loop
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
first_start=$((3 << 20)) first_size=$((40 << 20))
second_start=$((43 << 20)) second_size=$((9 << 20))

# The byte range of an image's file, which is compared with files and devices.
cut_out() # START SIZE TO
{
	dd if="$image" of="$3" bs=1M iflag=skip_bytes,count_bytes skip="$1" count="$2" conv=sparse status=none
}

# Two partitions, side by side: a file system, and arbitrary bytes right behind it.
make_image() # SECTOR-SIZE
{
	mkdir -p "$dir/tree"
	"$python" "$tree" write "$dir/tree" "$1" 60
	rm -f "$dir/first"
	quietly mke2fs -q -t ext4 -b 4096 -d "$dir/tree" "$dir/first" $((first_size >> 10))k
	rm -rf "$dir/tree"
	head -c $second_size /dev/urandom >"$dir/second"
	rm -f "$image"
	truncate -s 64M "$image"
	# sgdisk has no other way to be told of sectors than a device that has them.
	attach_loop "$image" --sector-size "$1"
	quietly sgdisk -a 1 -n 1:$((first_start / $1)):$(((first_start + first_size) / $1 - 1)) \
		-n 2:$((second_start / $1)):$(((second_start + second_size) / $1 - 1)) "$loop_device"
	detach_loop "$loop_device"
	dd if="$dir/first" of="$image" bs=1M seek=$((first_start >> 20)) conv=notrunc,sparse status=none
	dd if="$dir/second" of="$image" bs=1M seek=$((second_start >> 20)) conv=notrunc status=none
}

partitions() # DEVICE
{
	local found=("/sys/block/${1#/dev/}/${1#/dev/}"p*)
	[ -e "${found[0]}" ] || found=()
	echo "${found[@]##*/}"
}

# In bytes.  sysfs counts in 512, whatever the sectors are.
expect_partition() # NUMBER START SIZE
{
	local of=/sys/block/nbd0/nbd0p$1
	expect_equal "start of partition $1" "$2" $(($(<"$of/start") * 512))
	expect_equal "size of partition $1" "$3" $(($(<"$of/size") * 512))
}

appear() # SECTOR-SIZE OTHER-SECTOR-SIZE
{
	mark_kernel_log
	make_image "$1"
	start_server -- "$image"

	attach /dev/nbd0 -b "$1"
	# What udev does, and who has no udev.
	quietly blockdev --rereadpt /dev/nbd0
	expect_equal "partitions" "nbd0p1 nbd0p2" "$(partitions /dev/nbd0)"
	expect_partition 1 $first_start $first_size
	expect_partition 2 $second_start $second_size
	quietly sgdisk -v /dev/nbd0
	grep -q 'No problems found' "$dir/command.log" || fail "sgdisk finds problems"
	quietly cmp "$dir/first" /dev/nbd0p1
	quietly cmp "$dir/second" /dev/nbd0p2
	mount_at "$dir/mounted" -t ext4 /dev/nbd0p1
	quietly "$python" "$tree" check "$dir/mounted" "$1" 60
	mkdir "$dir/mounted/new"
	quietly "$python" "$tree" write "$dir/mounted/new" 7 60
	unmount "$dir/mounted"
	detach /dev/nbd0
	# The kernel looks again when the device is opened the next time, by udev or by us.
	: </dev/nbd0
	expect_equal "partitions of a detached device" "" "$(partitions /dev/nbd0)"
	[ ! -e /dev/nbd0p1 ] || fail "/dev/nbd0p1 is still there after detaching"

	attach /dev/nbd0 -b "$2"
	blockdev --rereadpt /dev/nbd0 >"$dir/command.log" 2>&1 || true
	expect_equal "partitions in sectors of $2 bytes" "" "$(partitions /dev/nbd0)"
	detach /dev/nbd0
	stop_server

	# What was written into the partition is in that part of the image, and nowhere else.
	quietly cmp -n $second_size -i $second_start:0 "$image" "$dir/second"
	rm -f "$dir/written"
	cut_out $first_start $first_size "$dir/written"
	! cmp -s "$dir/first" "$dir/written" || fail "what was written is not in the image"
	quietly e2fsck -f -n "$dir/written"
	mount_at "$dir/mounted" -t ext4 -o loop,ro "$dir/written"
	quietly "$python" "$tree" check "$dir/mounted/new" 7 60
	unmount "$dir/mounted"
	attach_loop "$image" --sector-size "$1"
	quietly sgdisk -v "$loop_device"
	grep -q 'No problems found' "$dir/command.log" || fail "sgdisk finds problems in the image"
	detach_loop "$loop_device"
	expect_quiet_kernel
	echo "sectors of $1 bytes: $SECONDS s"
}

appear 512 4096
appear 4096 512
