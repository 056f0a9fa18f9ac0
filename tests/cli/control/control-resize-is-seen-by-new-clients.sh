#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# After the file has grown or shrunk and `resize` was requested, new clients see the new size and
# can use all of it; clients that were already connected continue to work.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io nbdinfo
require_python_nbd
image=$dir/disk.img
socket=$dir/control

resizes()
{
	rm -f "$image"
	truncate -s 8M "$image"
	start_server -- "$image" engine="$engine" control="$socket"
	connect_once # the lock is taken now
	# This connection was open before the resize, and works throughout.
	spawn old "$python" "$lib/verify_load.py" "$uri" 2 $((100 * time_factor))

	truncate -s 16M "$image"
	expect_equal "size answered" 16777216 "$(control "$socket" resize size)"
	expect_equal "size seen" 16777216 "$(nbdinfo --size "$uri")"
	quietly qemu-io -f raw -c 'write -P 0x41 12M 4M' -c 'read -P 0x41 12M 4M' "$uri"

	truncate -s 6M "$image"
	expect_equal "size answered" 6291456 "$(control "$socket" resize size)"
	expect_equal "size seen" 6291456 "$(nbdinfo --size "$uri")"
	quietly qemu-io -f raw -c 'write -P 0x42 5M 1M' -c 'read -P 0x42 5M 1M' "$uri"

	truncate -s 8M "$image"
	expect_equal "size answered" 8388608 "$(control "$socket" resize size)"
	end_process old TERM
	expect_equal "status of the old connections" 0 "$end_status"
	stop_server
}

each_engine resizes
