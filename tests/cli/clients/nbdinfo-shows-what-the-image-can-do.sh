#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The export announces its true size, block sizes and abilities.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
truncate -s 10M "$image"

can() # ABILITY...
{
	local ability
	for ability; do
		nbdinfo --can "$ability" "$uri" || fail "the export cannot $ability"
	done
}

cannot() # ABILITY...
{
	local ability
	for ability; do
		! nbdinfo --can "$ability" "$uri" || fail "the export claims that it can $ability"
	done
}

fact() # NAME
{
	nbdinfo --json "$uri" | "$python" -c '
import json, sys
print(json.load(sys.stdin)["exports"][0].get(sys.argv[1]))' "$1"
}

announces()
{
	start_server -- "$image" engine="$engine" direct-io=on
	expect_equal size 10485760 "$(nbdinfo --size "$uri")"
	can read write flush fua trim zero fast-zero multi-conn structured-reply
	cannot cache
	! nbdinfo --is read-only "$uri" || fail "a writable image is announced read-only"
	expect_equal maximum 33554432 "$(fact block_size_maximum)"
	stop_server

	start_server -- "$image" engine="$engine" direct-io=off
	can read write flush fua trim zero fast-zero multi-conn cache
	expect_equal minimum 1 "$(fact block_size_minimum)"
	stop_server

	start_server -- "$image" engine="$engine" discard=off
	can write flush fua zero
	cannot trim
	stop_server

	start_server -r -- "$image" engine="$engine"
	can read multi-conn
	cannot write trim zero fast-zero
	nbdinfo --is read-only "$uri" || fail "-r is not announced"
	stop_server
}

announces_sector_size()
{
	local size
	for size in 512 1024 2048 4096; do
		start_server -- "$image" engine="$engine" sector-size=$size
		expect_equal minimum $size "$(fact block_size_minimum)"
		expect_equal maximum 33554432 "$(fact block_size_maximum)"
		[ "$(fact block_size_preferred)" -ge $size ] || fail "preferred size below the minimum"
		stop_server
	done
}

each_target announces
each_target announces_sector_size
