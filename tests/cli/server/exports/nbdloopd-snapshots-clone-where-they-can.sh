#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On a file system that can share blocks between files (XFS), a snapshot is a clone of the image's
# file: it holds one moment, and stays as it was.
. "$(dirname "$0")/../../../lib/functions.sh"

require mkfs.xfs
require_python_nbd
truncate -s 400M "$dir/disk"
quietly mkfs.xfs -q -m reflink=1 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/mounted" -t xfs "$loop_device"
image=$dir/mounted/disk.img

moments()
{
	rm -f "$image"
	truncate -s 24M "$image"
	start_nbdloopd --control "$dir/control" --engine="$engine" --export "disk=$image"
	"$python" "$lib/snapshot_moments.py" "$sock" "$dir/control" "$pid" reflink >"$dir/check.log" 2>&1 ||
		fail "a snapshot is wrong (engine $engine)"
	stop_server
}

each_engine moments

# Another directory may be on another file system: then the bytes are copied.
start_nbdloopd --sandbox-path="$dir" --control "$dir/control" --export "disk=$image"
expect_equal "method with a scratch directory elsewhere" copy \
	"$(control "$dir/control" "snapshot then scratch=$dir" snapshot.method)"
expect_equal "method beside the image" reflink "$(control "$dir/control" "snapshot now" snapshot.method)"
stop_server
