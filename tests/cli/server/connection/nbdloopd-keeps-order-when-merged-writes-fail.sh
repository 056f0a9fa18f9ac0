#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Adjacent writes that were merged fail together. While the server tries each of them by itself, a
# newer write of another client that waits for their range continues to wait, so that its data is
# what remains. The server doesn't try the writes again when their client is gone, and doesn't write
# them again when only their sync has failed.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

fails() # CASE [SECONDS]
{
	truncate -s 0 "$image"
	truncate -s 4M "$image"
	rm -f "$dir/calls"
	preload fail_write FAIL_WRITE_CALLS="$dir/calls" ${2:+FAIL_WRITE_SECONDS="$2"}
	start_nbdloopd --threads=2 --engine=threads --direct-io=off "$image"
	quietly "$python" "$own_python" "$sock" "$dir/calls" "$1"
	expect_log ' failed: Input/output error'
	stop_server
}

# The first attempt takes two seconds, so that requests which arrive meanwhile have to wait for the
# range.
fails there 2
fails gone 2
fails sync
