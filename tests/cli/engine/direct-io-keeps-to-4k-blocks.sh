#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On a device with 4096-byte blocks, direct I/O works for requests of any alignment, with a default
# sector size of 4096; an offset or a sector size that breaks the alignment rule turns direct I/O
# off and logs the reason, or, with direct-io=on, the server refuses to start.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io nbdinfo mke2fs

truncate -s 128M "$dir/disk"
attach_loop "$dir/disk" --sector-size 4096
device=$loop_device
[ "$(cat "/sys/class/block/${device#/dev/}/queue/logical_block_size")" = 4096 ] ||
	skip "this losetup makes no device with 4096-byte blocks"
quietly mke2fs -q -t ext4 "$device"
mount_at "$dir/mounted" -t ext4 "$device"
image=$dir/mounted/disk.img

minimum_block()
{
	nbdinfo --json "$uri" | "$python" -c '
import json, sys
print(json.load(sys.stdin)["exports"][0]["block_size_minimum"])'
}

works()
{
	head -c 8M /dev/urandom >"$image"
	cp "$image" "$dir/wanted"
	start_server -- "$image" engine="$engine" direct-io=on
	expect_equal "minimum block size" 4096 "$(minimum_block)"
	for file in "$uri" "$dir/wanted"; do
		quietly qemu-io -f raw -c 'write -P 0x66 4096 8192' -c 'write -P 0x67 512 512' \
			-c 'write -P 0x68 100001 1000001' -c flush "$file"
	done
	stop_server
	quietly cmp "$image" "$dir/wanted"
	expect_log 'disk\.img: .*direct I/O on \(4096-byte blocks\).*sector size 4096'
}

# Each of these options breaks the alignment rule.
forbidden() # KEY=VALUE
{
	start_server -- "$image" engine="$engine" "$1"
	connect_once
	stop_server
	expect_log 'disk\.img: .*direct I/O off \(.+4096'
	refuse_start -- "$image" engine="$engine" direct-io=on "$1"
	expect_log "disk\.img: .*4096"
}

rule_is_kept()
{
	forbidden offset=512
	forbidden sector-size=512
}

each_engine works
each_engine rule_is_kept
