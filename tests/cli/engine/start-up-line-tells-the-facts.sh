#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server prints one line per image that says what it serves and how: size, engine, direct I/O,
# polling, sector size, and whether the file can be written.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
truncate -s 10M "$image"

# Clients come and go, and the line appears once.
tells() # WANTED NBDKIT-OPTIONS... -- KEYS...
{
	local wanted=$1
	shift
	start_server "$@"
	connect_once
	connect_once
	stop_server
	expect_equal "start-up lines" 1 "$(grep -c 'disk\.img: [0-9]* bytes' "$log")"
	expect_log "^nbdkit: loop.*: $wanted\$"
}

says_facts()
{
	tells ".*disk\.img: 10485760 bytes, engine $engine, direct I/O off \(direct-io=off\), page cache keep, polling off, sector size 512, writable" \
		-- "$image" engine="$engine" direct-io=off
	tells ".*disk\.img: 10481664 bytes, engine $engine, direct I/O on \([0-9]+-byte blocks\), polling off, sector size 4096, writable" \
		-- "$image" engine="$engine" direct-io=on sector-size=4096 offset=4096
}

each_engine says_facts
