#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While several clients write and verify what they read, direct I/O is switched off and on: no
# request fails, no byte is wrong, and once direct I/O is on, the image leaves the page cache.
. "$(dirname "$0")/../../lib/functions.sh"

require fincore
require_python_nbd
image=$dir/disk.img
socket=$dir/control


switches()
{
	local cached
	rm -f "$image"
	truncate -s 16M "$image"
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 control="$socket"
	spawn load "$python" "$lib/verify_load.py" "$uri" 4 $((100 * time_factor))
	quietly "$python" "$own_python" "$socket"
	cached=$(cached_bytes "$image")
	[ "$cached" -lt 262144 ] || fail "$cached bytes of the image are in the page cache with direct I/O on"
	end_process load TERM
	expect_equal "status of the load" 0 "$end_status"
	expect_equal "errors" 0 "$(control "$socket" status exports.0.counters.errors)"

	# With direct I/O off, data that is read stays in the page cache.
	expect_equal direct_io false "$(control "$socket" "set direct-io=off" direct_io)"
	"$python" -c '
import sys, client
client.connect(sys.argv[1]).pread(4 << 20, 0)' "$uri"
	cached=$(cached_bytes "$image")
	[ "$cached" -ge 4194304 ] || fail "only $cached bytes are in the page cache without direct I/O"
	stop_server
}

each_engine switches
