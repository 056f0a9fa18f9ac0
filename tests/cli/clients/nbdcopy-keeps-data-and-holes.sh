#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdcopy copies a real file system into an export and out again, with the same bytes and the same
# holes.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdcopy nbdinfo mke2fs e2fsck
source=$dir/source
image=$dir/disk.img
make_ext4_image "$source" 96M
used=$(blocks_used "$source")
[ "$used" -lt 98304 ] || skip "$dir is on a file system without holes"

# Prints the map of a file, as another server sees it.
map_by_peer() # FILE
{
	nbdkit -U - file "$1" --run "nbdinfo --map \"\$uri\""
}

# The file's own metadata may take a few blocks.
expect_holes() # FILE
{
	local seen
	seen=$(blocks_used "$1")
	[ "$seen" -le $((used + used / 50 + 64)) ] ||
		fail "$1 uses $seen blocks, its source only $used"
}

round_trip() # DIRECT-IO
{
	# Holes, too, must replace what was in the image before.
	head -c 96M /dev/zero | tr '\0' '\252' >"$image"
	start_server -- "$image" engine="$engine" direct-io="$1"
	quietly nbdcopy --flush "$source" "$uri"
	quietly cmp "$source" "$image"
	expect_holes "$image"
	expect_equal "the map" "$(map_by_peer "$image")" "$(nbdinfo --map "$uri")"

	rm -f "$dir/copy"
	quietly nbdcopy "$uri" "$dir/copy"
	quietly cmp "$source" "$dir/copy"
	expect_holes "$dir/copy"
	quietly e2fsck -fn "$dir/copy"
	stop_server
	quietly cmp "$source" "$image"
}

each_target round_trip on
each_target round_trip off
