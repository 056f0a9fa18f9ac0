#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On a device without poll queues, poll=on refuses to start and poll=auto serves without polling;
# both say why.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdcopy
# The kernel's loop device has no poll queues, whatever device is below it.
require mke2fs
truncate -s 64M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/mounted" -t ext4 "$loop_device"
image=$dir/mounted/disk.img
head -c 4M /dev/urandom >"$image"

refuse_start -- "$image" poll=on
expect_log 'disk\.img: .*poll'

start_server -- "$image" poll=auto
quietly nbdcopy "$uri" "$dir/seen"
stop_server
quietly cmp "$dir/seen" "$image"
expect_log 'disk\.img: .*polling off \(.+\)'

start_server -- "$image"
connect_once
stop_server
expect_log 'disk\.img: .*polling off(,|$)'

# Only io_uring polls, and only with direct I/O.
for other in engine=aio engine=threads direct-io=off; do
	refuse_start -- "$image" poll=on $other
	expect_log 'disk\.img: .*poll'
done
