#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# As soon as a server has stopped, the file system of its image can be unmounted: no part of the
# server has the image open any more.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo mke2fs umount
require_root "mounting"

unmounts()
{
	truncate -s 32M "$dir/disk.$engine"
	quietly mke2fs -q -t ext4 "$dir/disk.$engine"
	attach_loop "$dir/disk.$engine"
	mkdir -p "$dir/mounted"
	for _ in 1 2 3 4 5 6; do
		patiently_mount -t ext4 "$loop_device" "$dir/mounted"
		on_exit umount -l "$dir/mounted"
		truncate -s 16M "$dir/mounted/disk.img"
		start_server -- "$dir/mounted/disk.img" engine="$engine"
		quietly nbdinfo "$uri"
		stop_server
		umount "$dir/mounted" || fail "the file system is still busy"
		unset 'exit_commands[-1]'
	done
	detach_loop "$loop_device"
}

each_engine unmounts
