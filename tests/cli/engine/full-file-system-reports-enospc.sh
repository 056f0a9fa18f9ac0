#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When the file system that holds a sparse image is full, a write fails with ENOSPC, the log names
# that write, data written earlier stays as it was, and the export continues to work.
. "$(dirname "$0")/../../lib/functions.sh"

require mke2fs
require_python_nbd
truncate -s 16M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/small" -t ext4 "$loop_device"
image=$dir/small/disk.img

reports() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 64M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1" control="$dir/control"
	"$python" "$own_python" "$uri" >"$dir/client.log" 2>&1 || fail "the client saw something else"
	stop_server
	expect_log 'error: .*disk\.img: write of [0-9]+ bytes at offset [0-9]+ failed: No space left on device'
}

each_target reports on
each_target reports off
