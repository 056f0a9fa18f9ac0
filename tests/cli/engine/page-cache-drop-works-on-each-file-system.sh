#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# page-cache=drop leaves no pages on file systems that support RWF_DONTCACHE in different ways (XFS,
# ext4) or not at all (btrfs), and on a block device; the data is there after the device was taken
# away from under its file system's cache.
. "$(dirname "$0")/../../lib/functions.sh"

require fincore nbdcopy
require_root "loop devices and mounts"
size=$((48 << 20))
head -c "$size" /dev/urandom >"$dir/data"

cached_below() # FILE BYTES
{
	[ "$(cached_bytes "$1")" -lt "$2" ]
}

# Writes to holes first, then to blocks that are allocated.
writes_are_dropped() # IMAGE
{
	start_server -- "$1" engine="$engine" direct-io=off page-cache=drop
	for bytes in 4096 1048576 16384; do
		quietly nbdcopy --request-size=$bytes "$dir/data" "$uri"
		wait_until "writes of $bytes bytes are dropped ($1)" cached_below "$1" 262144
	done
	quietly nbdcopy "$uri" "$dir/copy"
	quietly cmp "$dir/data" "$dir/copy"
	wait_until "what was read is dropped ($1)" cached_below "$1" 262144
	stop_server
}

on_file_system() # TYPE
{
	local engine
	modprobe "$1" 2>/dev/null || true
	if ! command -v "mkfs.$1" >/dev/null || ! grep -qw "$1" /proc/filesystems; then
		without+=" $1"
		return
	fi
	truncate -s 400M "$dir/$1.disk"
	quietly "mkfs.$1" "$dir/$1.disk"
	attach_loop "$dir/$1.disk"
	mount_at "$dir/$1" "$loop_device"
	for engine in io_uring aio; do
		for server_program in $servers; do
			rm -f "$dir/$1/disk.img"
			truncate -s "$size" "$dir/$1/disk.img"
			writes_are_dropped "$dir/$1/disk.img"
		done
	done
	umount "$dir/$1"
	mount "$loop_device" "$dir/$1"
	quietly cmp "$dir/data" "$dir/$1/disk.img"
}

without=
for type in ext4 xfs btrfs; do
	on_file_system $type
done

truncate -s "$size" "$dir/device.img"
attach_loop "$dir/device.img"
server_program=nbdloopd
each_engine writes_are_dropped "$loop_device"

[ -z "$without" ] || skip "no kernel or no mkfs here for:$without"
