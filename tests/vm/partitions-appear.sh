#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The partitions of a partitioned image appear as /dev/nbd0p1 and so on: where the table puts them,
# with the image's bytes, ready to be mounted and written; they disappear when the image is
# detached. The test uses a table of 512-byte sectors and one of 4096-byte sectors; in sectors of
# the other size, neither is recognised as a table, as the manual says.
#
# The images are made without the server, so a server that is off by a sector, leaves out the end of
# the image (where the second copy of the table is) or writes past a partition's end shows no
# partitions, or damages the neighbour.
. "$(dirname "$0")/functions.sh"

require sgdisk mke2fs
modprobe loop
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
first_start=$((3 << 20)) first_size=$((40 << 20))
second_start=$((43 << 20)) second_size=$((9 << 20))

# Cuts a byte range out of an image's file, to be compared with files and devices.
cut_out() # START SIZE TO
{
	dd if="$image" of="$3" bs=1M iflag=skip_bytes,count_bytes skip="$1" count="$2" conv=sparse status=none
}

# Two adjacent partitions: a file system, and arbitrary bytes directly after it.
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
	# sgdisk learns the sector size only from a device that has that size.
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

# Arguments are in bytes. sysfs counts in units of 512 bytes, whatever the sector size is.
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
	# udev does this, and so do users without udev.
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
	# The kernel looks for partitions when the device is opened the next time, by udev or by
	# this script.
	: </dev/nbd0
	expect_equal "partitions of a detached device" "" "$(partitions /dev/nbd0)"
	[ ! -e /dev/nbd0p1 ] || fail "/dev/nbd0p1 is still there after detaching"

	attach /dev/nbd0 -b "$2"
	blockdev --rereadpt /dev/nbd0 >"$dir/command.log" 2>&1 || true
	expect_equal "partitions in sectors of $2 bytes" "" "$(partitions /dev/nbd0)"
	detach /dev/nbd0
	stop_server

	# The data that was written into the partition is in that part of the image, and nowhere
	# else.
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
