#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit's filters cow, partition, blocksize, offset and stats work on top of the plugin.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io nbdcopy
image=$dir/disk.img
original=$dir/original
head -c 16M /dev/urandom >"$original"
# An MBR's first partition entry and its signature: 8192 sectors, starting at sector 4096.
entry='\0\0\0\0\x83\0\0\0\0\x10\0\0\0\x20\0\0'
{ printf '%b' "$entry" && head -c 48 /dev/zero && printf '\x55\xaa'; } |
	dd of="$original" bs=1 seek=446 conv=notrunc status=none
dd if="$original" of="$dir/partition" bs=1M skip=2 count=4 status=none

# These writes begin and end in the middle of blocks; the same bytes go into $dir/wanted.
write_unaligned() # FILE-OR-URI
{
	quietly qemu-io -f raw -c 'write -P 0x77 1000001 70001' -c 'write -P 0x78 3000000 5' -c flush "$1"
}

expect_export() # FILE
{
	rm -f "$dir/seen"
	quietly nbdcopy "$uri" "$dir/seen"
	quietly cmp "$dir/seen" "$1"
}

fresh_image()
{
	cp "$original" "$image"
	cp "$original" "$dir/wanted"
	write_unaligned "$dir/wanted"
}

cow_keeps_image()
{
	fresh_image
	start_server --filter=cow -- "$image" engine="$engine"
	write_unaligned "$uri"
	expect_export "$dir/wanted"
	stop_server
	quietly cmp "$image" "$original"
}

partition_and_offset_find_their_part()
{
	fresh_image
	start_server --filter=partition -- "$image" engine="$engine" partition=1
	expect_export "$dir/partition"
	stop_server
	start_server --filter=offset -- "$image" engine="$engine" offset=2M range=4M
	expect_export "$dir/partition"
	write_unaligned "$uri"
	stop_server
	cp "$dir/partition" "$dir/part"
	write_unaligned "$dir/part"
	cp "$original" "$dir/wanted"
	dd if="$dir/part" of="$dir/wanted" bs=1M seek=2 conv=notrunc status=none
	quietly cmp "$image" "$dir/wanted"
}

blocksize_splits_and_pads()
{
	fresh_image
	start_server --filter=blocksize -- "$image" engine="$engine" minblock=4096 maxdata=64k
	write_unaligned "$uri"
	expect_export "$dir/wanted"
	stop_server
	quietly cmp "$image" "$dir/wanted"
}

stats_counts()
{
	fresh_image
	rm -f "$dir/stats"
	start_server --filter=stats -- "$image" engine="$engine" statsfile="$dir/stats"
	write_unaligned "$uri"
	expect_export "$dir/wanted"
	stop_server
	grep -q '^write: 2 ops' "$dir/stats" && grep -q '^read:.*16.*MiB' "$dir/stats" || {
		cp "$dir/stats" "$dir/stats.log"
		fail "the statistics are not those of two writes and one whole read"
	}
}

each_engine cow_keeps_image
each_engine blocksize_splits_and_pads
each_engine stats_counts
each_engine partition_and_offset_find_their_part
