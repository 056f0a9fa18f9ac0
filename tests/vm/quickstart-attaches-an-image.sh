#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ./quickstart IMAGE attaches the image as a disk, where the kernel has the driver for it, and
# Ctrl-C detaches it again, except while it is mounted.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
mke2fs -q -t ext4 "$image" 64M
top_srcdir=$(cd "$(dirname "$0")/../.." && pwd)

# Under job control the script doesn't ignore SIGINT, as in a terminal.
start_quickstart()
{
	set -m
	"$top_srcdir/quickstart" "$image" >"$dir/quickstart.log" 2>&1 </dev/null &
	quickstart=$!
	set +m
	wait_until "quickstart says how to go on" grep -q "^Ctrl-C detaches it" "$dir/quickstart.log"
	device=$(sed -n "s|^$image is \(/dev/nbd[0-9]*\):|\1|p" "$dir/quickstart.log")
	[ -b "$device" ] || fail "quickstart tells no device"
}

interrupt_quickstart() # STATUS
{
	local status=0
	kill -INT "-$quickstart"
	wait "$quickstart" || status=$?
	expect_equal "status of quickstart" "$1" "$status"
}

start_quickstart
mount_at "$dir/mnt" "$device"
echo "from the disk" >"$dir/mnt/file"
umount "$dir/mnt"
interrupt_quickstart 0
device_is_gone "$device" || fail "$device is still there"
expect_nothing_left
expect_equal "the file in the image" "from the disk" "$(debugfs -R 'cat /file' "$image" 2>/dev/null)"

start_quickstart
mount_at "$dir/mnt" "$device"
interrupt_quickstart 1
grep -q "in use: .*$dir/mnt" "$dir/quickstart.log" || fail "quickstart doesn't say who uses the disk"
expect_equal "the file on the disk" "from the disk" "$(cat "$dir/mnt/file")"
umount "$dir/mnt"
nbdloop_detach "$device"
expect_nothing_left
