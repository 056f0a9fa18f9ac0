#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A file whose size is no multiple of 512 is served with all of its bytes: nbdcopy copies it whole,
# out of an export and into an export of the same size, with direct I/O and without; the image keeps
# its size. The start-up line says why the sector size is 1.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdcopy nbdinfo
image=$dir/disk.img

round_trip() # SIZE OPTION...
{
	local size=$1
	shift
	head -c "$size" /dev/urandom >"$dir/source"
	# Other bytes, all of which must be overwritten.
	head -c "$size" /dev/zero | tr '\0' '\252' >"$image"
	start_server -- "$image" engine="$engine" "$@"
	expect_equal "size of the export" "$size" "$(nbdinfo --size "$uri")"
	expect_log 'sector size 1 \(the size is no multiple of 512\)'
	reject_log warning
	quietly nbdcopy --flush "$dir/source" "$uri"
	quietly cmp "$dir/source" "$image"
	rm -f "$dir/copy"
	quietly nbdcopy "$uri" "$dir/copy"
	quietly cmp "$dir/source" "$dir/copy"
	stop_server
	quietly cmp "$dir/source" "$image"
}

both_ways()
{
	for size in 10000001 4097 100; do
		round_trip "$size"
		round_trip "$size" direct-io=off
	done
	round_trip 1049087 direct-io=on
}

# A user who asks for sectors gets them.
whole_sectors()
{
	head -c 10000001 /dev/zero >"$image"
	start_server -- "$image" engine="$engine" sector-size=512
	expect_equal "size of the export" 9999872 "$(nbdinfo --size "$uri")"
	stop_server
}

each_target both_ways
each_target whole_sectors
