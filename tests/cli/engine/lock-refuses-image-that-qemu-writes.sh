#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While a QEMU program may write to an image, the server refuses to start, and says which process
# has the image and what to do; with lock=off the server serves the image all the same.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io qemu-img qemu-storage-daemon nbdinfo
image=$dir/disk.img
truncate -s 16M "$image"

# Returns true when the process $pid has locked the image.
locked()
{
	grep -qs OFDLCK "/proc/$pid/fdinfo"/*
}

expect_refusal() # NBDKIT-OPTIONS...
{
	refuse_start "$@" -- "$image"
	expect_log 'disk\.img'
	expect_log 'lock'
	expect_log 'lock=off'
	expect_log "$holder"
}

expect_all_refused()
{
	expect_refusal
	expect_refusal -r
	start_server -- "$image" lock=off
	expect_equal size 16777216 "$(nbdinfo --size "$uri")"
	stop_server
}

holder=qemu-io
spawn qemu-io qemu-io -f raw -c 'sleep 100000' "$image"
wait_until "qemu-io has locked the image" locked
expect_all_refused
end_process qemu-io KILL

holder=qemu-storage
spawn daemon qemu-storage-daemon --blockdev "driver=file,filename=$image,node-name=disk" \
	--nbd-server "addr.type=unix,addr.path=$dir/daemon.sock" \
	--export type=nbd,id=e,node-name=disk,writable=on
wait_until "qemu-storage-daemon listens" [ -S "$dir/daemon.sock" ]
wait_until "qemu-storage-daemon has locked the image" locked
expect_all_refused
end_process daemon TERM

# No process has the image any more.
start_server -- "$image"
connect_once
stop_server
