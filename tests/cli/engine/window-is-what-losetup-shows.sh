#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With offset=, sizelimit= and sectors of 512 bytes, the export holds the bytes that the kernel's
# loop device shows with the same options. Writes change no byte outside that window.
. "$(dirname "$0")/../../lib/functions.sh"

require blockdev nbdcopy nbdinfo
image=$dir/disk.img
head -c 2000000 /dev/urandom >"$image" # no whole number of sectors
cp "$image" "$dir/original"

same_window() # OFFSET SIZELIMIT
{
	attach_loop "$image" --read-only --offset "$1" --sizelimit "$2"
	start_server -r -- "$image" engine="$engine" offset="$1" sizelimit="$2" sector-size=512
	expect_equal "size with offset=$1 sizelimit=$2" \
		"$(blockdev --getsize64 "$loop_device")" "$(nbdinfo --size "$uri")"
	rm -f "$dir/seen"
	quietly nbdcopy "$uri" "$dir/seen"
	stop_server
	quietly cmp "$dir/seen" "$loop_device"
	detach_loop "$loop_device"
}

all_windows()
{
	same_window 0 0
	same_window 512 0
	same_window 4096 1MiB
	same_window 1000 0
	same_window 1KB 100KB
	same_window 64k 4GiB
	same_window 1999999 0
}

writes_stay_inside()
{
	cp "$dir/original" "$image"
	start_server -- "$image" engine="$engine" offset=1000 sizelimit=100000
	local size
	size=$(nbdinfo --size "$uri")
	expect_equal size 100000 "$size"
	head -c "$size" /dev/zero | tr '\0' '\252' >"$dir/marks"
	quietly nbdcopy --flush "$dir/marks" "$uri"
	stop_server
	cp "$dir/original" "$dir/wanted"
	dd if="$dir/marks" of="$dir/wanted" bs=1000 seek=1 conv=notrunc status=none
	quietly cmp "$image" "$dir/wanted"
}

each_engine all_windows
each_engine writes_stay_inside
