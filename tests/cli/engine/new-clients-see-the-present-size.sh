#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A file that grew or shrank while it was served has its present size for clients that connect from
# then on, and the log tells it once.  One that has become empty keeps its size: its requests fail,
# instead of a client finding an empty disk.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo nbdcopy

expect_size() # BYTES
{
	expect_equal "size that a new client sees ($server_program)" "$1" "$(nbdinfo --size "$uri")"
	expect_equal "size that the next one sees ($server_program)" "$1" "$(nbdinfo --size "$uri")"
}

try_server()
{
	truncate -s 4M "$dir/disk.img"
	start_server -- "$dir/disk.img"
	expect_size $((4 << 20))
	truncate -s 8M "$dir/disk.img"
	printf end | dd of="$dir/disk.img" bs=1 seek=$(((8 << 20) - 3)) conv=notrunc status=none
	expect_size $((8 << 20))
	quietly nbdcopy "$uri" "$dir/copy.img"
	quietly cmp "$dir/disk.img" "$dir/copy.img"
	truncate -s 1000000 "$dir/disk.img"
	expect_size 1000000
	quietly nbdcopy "$uri" "$dir/copy.img"
	quietly cmp "$dir/disk.img" "$dir/copy.img"
	expect_equal "lines about the sizes" 2 "$(grep -c 'resized elsewhere' "$log")"
	: >"$dir/disk.img"
	expect_size 1000000
	must_fail nbdcopy "$uri" "$dir/copy.img"
	stop_server
}

for server_program in $servers; do
	try_server
done
