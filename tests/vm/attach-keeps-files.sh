#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu two processors, from which several connections get requests
# ext4, XFS and Btrfs keep a tree of files on /dev/nbd0. The tree is written, synced and unmounted;
# the device is detached and attached again. Then everything is there, on the device, and in the
# image file after the server has gone. The test runs over a unix socket and TCP, in blocks of 512
# and 4096 bytes, over one connection and four, with each engine, with direct I/O (the default).
#
# A lost, misplaced or torn write, or a hole in place of data, shows as wrong files, or as a file
# system that its own checker finds broken. So does a write of a part of a block that changes the
# rest of the block.
. "$(dirname "$0")/functions.sh"

require mkfs.ext4 mkfs.xfs mkfs.btrfs
tree=$(dirname "$0")/tree.py
image=$dir/disk.img

make_file_system() # KIND
{
	case $1 in
	ext4) quietly mkfs.ext4 -q -F /dev/nbd0 ;;
	xfs) quietly mkfs.xfs -q -f /dev/nbd0 ;;
	btrfs) quietly mkfs.btrfs -q -f /dev/nbd0 ;;
	esac
}

# Fails on anything that the checker would repair.
check_file_system() # KIND FILE-OR-DEVICE
{
	case $1 in
	ext4) quietly e2fsck -f -n "$2" ;;
	xfs) if [ -b "$2" ]; then quietly xfs_repair -n "$2"; else quietly xfs_repair -n -f "$2"; fi ;;
	btrfs) quietly btrfs check --check-data-csum "$2" ;;
	esac
}

expect_attached() # BLOCK-SIZE CONNECTIONS
{
	expect_equal "size in sectors" $((512 << 11)) "$(device_sectors /dev/nbd0)"
	expect_equal "logical block size" "$1" "$(cat /sys/block/nbd0/queue/logical_block_size)"
	expect_connections /dev/nbd0 "$2"
}

keeps_files() # FILE-SYSTEM TRANSPORT BLOCK-SIZE CONNECTIONS ENGINE
{
	local kind=$1 block_size=$3 connections=$4 engine=$5 seed=$RANDOM
	local what="$kind, $2, blocks of $3, connections: $4, $engine, seed $seed"
	server_listen=() nbd_server=()
	if [ "$2" = tcp ]; then
		server_listen=(-i 127.0.0.1 -p 10809)
		nbd_server=(127.0.0.1 10809)
	fi
	mark_kernel_log
	rm -f "$image"
	truncate -s 512M "$image"
	start_server -- "$image" engine="$engine"
	attach /dev/nbd0 -b "$block_size" -C "$connections"
	expect_attached "$block_size" "$connections"
	make_file_system "$kind"
	mount_at "$dir/mounted" -t "$kind" /dev/nbd0
	"$python" "$tree" write "$dir/mounted" "$seed" || fail "the tree can't be made ($what)"
	sync
	unmount "$dir/mounted"
	check_file_system "$kind" /dev/nbd0
	detach /dev/nbd0

	attach /dev/nbd0 -b "$block_size" -C "$connections"
	mount_at "$dir/mounted" -t "$kind" /dev/nbd0
	"$python" "$tree" check "$dir/mounted" "$seed" || fail "what was written is not there after detaching ($what)"
	unmount "$dir/mounted"
	detach /dev/nbd0
	stop_server
	expect_log "disk\.img: .*, engine $engine, direct I/O on \(512-byte blocks\)"
	# The check must not have read any of the image from the page cache.
	expect_equal "bytes of the image in the page cache" 0 "$(cached_bytes "$image")"
	[ "$block_size" = 512 ] || check_file_system "$kind" "$image" # once for each is enough
	expect_quiet_kernel
	echo "$what: $SECONDS s"
}

# The runs of both kernels together cover everything.
if [ "$VM_LINUX" = 6.1 ]; then
	keeps_files ext4 unix 512 4 io_uring
	keeps_files xfs tcp 512 1 threads
	keeps_files btrfs unix 4096 1 aio
else
	keeps_files ext4 tcp 4096 1 aio
	keeps_files xfs unix 4096 4 io_uring
	keeps_files btrfs tcp 512 4 threads
fi
