#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The default sector size is the disk's, and doesn't change with the alignment that direct I/O to
# the file needs: on XFS, that alignment grows when the file shares blocks with a copy. If the
# sector size grew as well, a partition table would be lost.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo mkfs.xfs
truncate -s 400M "$dir/disk"
quietly mkfs.xfs -q -m reflink=1 "$dir/disk"
attach_loop "$dir/disk"
[ "$(cat "/sys/class/block/${loop_device#/dev/}/queue/logical_block_size")" = 512 ] || skip "no device with 512-byte blocks"
mount_at "$dir/mounted" -t xfs "$loop_device"
image=$dir/mounted/disk.img
head -c 8M /dev/urandom >"$image"
sync "$image"

status() # WHAT
{
	control "$dir/control" status "exports.0.$1"
}

start_server -- "$image" control="$dir/control"
expect_equal "sector size" 512 "$(status sector_size)"
stop_server

quietly cp --reflink=always "$image" "$dir/mounted/copy.img"
start_server -- "$image" control="$dir/control"
align=$(status direct_io_align)
expect_equal "sector size with shared blocks" 512 "$(status sector_size)"
connect_once
stop_server
[ "$align" = 4096 ] || skip "direct I/O to shared blocks needs nothing else with this kernel"
expect_log 'direct I/O off \(sector-size=512 is smaller than the 4096-byte blocks that it needs\)'

start_server -- "$image" control="$dir/control" direct-io=on
expect_equal "sector size that was asked for with direct I/O" 4096 "$(status sector_size)"
stop_server
