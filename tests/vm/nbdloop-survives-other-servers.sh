#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A device with several connections survives a kill of its server while fio writes and verifies; a
# device that is attached to a server elsewhere resumes when that server comes back. Without its
# guard, the device continues to work, and can be detached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/killed_servers.sh"

survives 3 --connections 2 --timeout 4

# This server is not nbdloop's own.
mark_kernel_log
truncate -s 16M "$dir/remote.img"
start_nbdloopd "$dir/remote.img"
nbdloop_attach --timeout 4 "$uri"
expect_equal "backend" "$uri" "$(cat "/sys/block/${device#/dev/}/backend")"
dd if=/dev/urandom of="$dir/data" bs=1M count=8 status=none
dd if="$dir/data" of="$device" bs=64k conv=fsync status=none &
writer=$!
sleep 0.5
kill_server
sleep 1
start_nbdloopd "$dir/remote.img"
wait $writer || fail "writing fails when the remote server was started again"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
quietly cmp -n $((8 << 20)) "$dir/data" "$dir/remote.img"
stop_server
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
expect_nothing_left

# No guard watches the device any more.
nbdloop_attach "$dir/remote.img"
guard=$(control_of "$device")
guard=${guard##*/}
kill -KILL "${guard%.sock}"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
expect_nothing_left
