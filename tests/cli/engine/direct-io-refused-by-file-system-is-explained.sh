#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On a file system without direct I/O, direct-io=auto serves through the page cache and says why;
# direct-io=on refuses to start and says why.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io nbdcopy nbdinfo

# squashfs refuses to open a file for direct I/O. ext4 with journalled data opens the file, but goes
# through the page cache all the same: only statx() reveals that.
make_squashfs()
{
	require mksquashfs
	mkdir "$dir/tree"
	head -c 4M /dev/urandom >"$dir/tree/disk.img"
	quietly mksquashfs "$dir/tree" "$dir/squashfs" -noappend -quiet
	attach_loop "$dir/squashfs" --read-only
	mount_at "$dir/squash" -t squashfs -o ro "$loop_device"
}

make_journalled_ext4()
{
	require mke2fs
	truncate -s 64M "$dir/ext4"
	quietly mke2fs -q -t ext4 "$dir/ext4"
	attach_loop "$dir/ext4"
	mount_at "$dir/journalled" -t ext4 -o data=journal "$loop_device"
	head -c 4M /dev/urandom >"$dir/journalled/disk.img"
}

read_only_image()
{
	local image=$dir/squash/disk.img
	start_server -- "$image" engine="$engine"
	rm -f "$dir/seen"
	quietly nbdcopy "$uri" "$dir/seen"
	stop_server
	quietly cmp "$dir/seen" "$image"
	expect_log 'disk\.img: .*direct I/O off \(.+\)'
	expect_log 'disk\.img: .*sector size 512, read-only \(its file system is mounted read-only\)$'
	refuse_start -- "$image" engine="$engine" direct-io=on
	expect_log 'disk\.img: .*direct'
}

writable_image()
{
	local image=$dir/journalled/disk.img
	cp "$image" "$dir/wanted"
	start_server -- "$image" engine="$engine"
	quietly qemu-io -f raw -c 'write -P 0x66 10001 1000000' -c flush "$uri"
	quietly qemu-io -f raw -c 'write -P 0x66 10001 1000000' -c flush "$dir/wanted"
	stop_server
	quietly cmp "$image" "$dir/wanted"
	expect_log 'disk\.img: .*direct I/O off \(.+\)'
	refuse_start -- "$image" engine="$engine" direct-io=on
	expect_log 'disk\.img: .*direct'
}

make_squashfs
make_journalled_ext4
each_engine read_only_image
each_engine writable_image
