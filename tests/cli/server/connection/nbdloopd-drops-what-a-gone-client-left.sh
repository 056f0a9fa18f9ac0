#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a client has closed its connection, the server drops those of its writes that waited because
# too many were in flight: the client may have sent them again elsewhere, followed by newer ones.
# The server carries out such writes when the client is still connected, or when it sent
# NBD_CMD_DISC after them and waits.
. "$(dirname "$0")/../../../lib/functions.sh"

require mke2fs fsfreeze
require_python_nbd
truncate -s 64M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/small" -t ext4 "$loop_device"
image=$dir/small/disk.img
# A frozen file system can't be unmounted.
on_exit eval "fsfreeze -u $dir/small 2>/dev/null || true"

# Three clients write while the disk is frozen. Each sends more requests than the server begins or
# receives at once.
drops()
{
	rm -f "$image"
	truncate -s 32M "$image"
	start_nbdloopd --engine="$engine" --threads=1 --control "$dir/control" "$image"
	"$python" "$own_python" "$uri" "$image" "$dir/control" >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
	expect_equal "clients of which the log tells that they are gone" 1 "$(grep -c 'gave up on this connection' "$log")"
	stop_server
}

# Here io_submit() itself waits for the disk, and blocks the thread, its connections and its status.
engines=${engines/aio/}
each_engine drops
