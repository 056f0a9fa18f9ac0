#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Snapshots that copy before each write, on any file system: a snapshot holds what was acknowledged
# before it and nothing that was submitted later, and stays as it was while clients write, while
# direct I/O is switched, and beside other snapshots.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

moments() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 24M "$image"
	# On a file system that can clone, the image's own directory would be used for that.
	start_nbdloopd --control "$dir/control" --engine="$engine" --direct-io="$1" --export "disk=$image"
	"$python" "$lib/snapshot_moments.py" "$sock" "$dir/control" "$pid" "$method" >"$dir/check.log" 2>&1 ||
		fail "a snapshot is wrong (engine $engine, direct-io=$1)"
	stop_server
}

method=copy
cp --reflink=always "$0" "$dir/clone" 2>"$dir/reflink.log" && method=reflink
each_engine moments auto
engine=io_uring moments off
