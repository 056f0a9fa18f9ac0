#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu null_blk
# Where nothing can be polled, poll=on refuses to start and poll=auto serves without polling, and
# both say why: a file on an NVMe drive without poll queues, a null_blk device and a loop device
# without them, a file on Btrfs and a file on an overlay.
#
# Linux 6.1 accepts polled requests for devices without poll queues and silently uses interrupts; a
# server that relies on a trial would claim there that it polls.
. "$(dirname "$0")/functions.sh"

require mkfs.btrfs
socket=$dir/control
disk=$(findmnt --noheadings --output SOURCE --target "$dir")
expect_equal "poll queues of the NVMe drive" 0 "$(cat "/sys/block/${disk#/dev/}/queue/io_poll")"

is_not_polled() # FILE REASON
{
	cp "$dir/data" "$1"
	sync "$1"
	refuse_start -- "$1" poll=on
	expect_log "$1: poll=on is not possible: .*$2"
	start_server -- "$1" poll=auto control="$socket"
	attach /dev/nbd0 -b 4096
	expect_equal "poll in the status of $1" false "$(control "$socket" status exports.0.poll)"
	control "$socket" status exports.0.poll_reason >"$dir/reason.log"
	grep -qE "$2" "$dir/reason.log" || fail "the status of $1 doesn't say why it isn't polled"
	cmp -n "$(stat -c %s "$dir/data")" "$dir/data" /dev/nbd0 || fail "$1 is served with wrong data"
	detach /dev/nbd0
	stop_server
	expect_log "$1: .*, direct I/O on .*, polling off \\(.*$2"
}

head -c 1M /dev/urandom >"$dir/data"
none="the device has no poll queues"
is_not_polled "$dir/disk.img" "$none"

quietly modprobe null_blk nr_devices=1 gb=1 memory_backed=1 poll_queues=0
is_not_polled /dev/nullb0 "$none"

quietly modprobe loop
truncate -s 256M "$dir/btrfs"
quietly mkfs.btrfs -q "$dir/btrfs"
attach_loop "$dir/btrfs" --direct-io=on
mount_at "$dir/mounted" -t btrfs "$loop_device"
is_not_polled "$dir/mounted/disk.img" "can't be polled"
unmount "$dir/mounted"
is_not_polled "$loop_device" "$none"
detach_loop "$loop_device"

mkdir "$dir/lower" "$dir/upper" "$dir/work"
mount_at "$dir/overlay" -t overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work" overlay
is_not_polled "$dir/overlay/disk.img" "can't be polled"
unmount "$dir/overlay"
