#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Another program disconnects the device at the moment at which it is mounted (blktests' nbd/003).
# Whichever comes first, neither hangs, server and guard end, the image's file system is intact, and
# the device can be attached again.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
truncate -s 16M "$image"
quietly mke2fs -q -t ext4 "$image"
mkdir "$dir/mnt"
mounted=0
for round in {1..12}; do
	nbdloop_attach "$image"
	# The mount and the disconnect take turns in starting a little later.
	(sleep "0.$((round % 4 * 2))"; nbd-client -d "$device" >"$dir/disconnect.log" 2>&1) &
	sleep "0.0$((round % 3 * 3))"
	if timeout 100 mount -o ro,noload "$device" "$dir/mnt" 2>"$dir/mount.log"; then
		mounted=$((mounted + 1))
		timeout 100 umount "$dir/mnt" || fail "umount hangs or fails in round $round"
	elif [ $? -eq 124 ]; then
		fail "mount hangs in round $round"
	fi
	wait
	wait_until "the server and the guard have ended" no_process
	wait_until "the device is gone" device_is_gone "$device"
done
echo "mounted $mounted of 12 times"
expect_nothing_left
quietly e2fsck -f -n "$image"
nbdloop_attach "$image"
quietly e2fsck -f -n "$device"
nbdloop_detach "$device"
expect_nothing_left
