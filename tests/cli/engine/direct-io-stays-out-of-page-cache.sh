#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reading a whole image through the server leaves nothing of it in the page cache with direct I/O,
# and all of it without direct I/O.
. "$(dirname "$0")/../../lib/functions.sh"

require fincore nbdcopy
image=$dir/disk.img
size=$((256 << 20))
head -c "$size" /dev/urandom >"$image"

cached_after_reading() # DIRECT-IO
{
	drop_cache "$image"
	[ "$(cached_bytes "$image")" -lt 1048576 ] || skip "this machine keeps the image in its page cache"
	start_server -r -- "$image" engine="$engine" direct-io="$1"
	quietly nbdcopy "$uri" null:
	stop_server
	cached=$(cached_bytes "$image")
}

direct_leaves_nothing()
{
	cached_after_reading on
	[ "$cached" -lt 2097152 ] || fail "with direct I/O $cached bytes are in the page cache"
	cached_after_reading off
	[ "$cached" -gt $((size / 2)) ] || fail "without direct I/O only $cached bytes are in the page cache"
}

each_engine direct_leaves_nothing
