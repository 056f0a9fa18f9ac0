#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With page-cache=drop, reads and writes leave nothing of the image in the page cache, though no
# client flushes; the data is right, and with page-cache=keep the pages stay. The start-up line and
# the status tell which of the two runs, and an image in memory, which has no other place, is
# refused.
. "$(dirname "$0")/../../lib/functions.sh"

require fincore nbdcopy
image=$dir/disk.img
size=$((64 << 20))
head -c "$size" /dev/urandom >"$dir/first"
head -c "$size" /dev/urandom >"$dir/second"
# Parts of pages, and pages that are written again and again.
cat >"$dir/small.py" <<'EOP'
import sys, nbd

h = nbd.NBD()
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
h.connect_uri(sys.argv[1])
for i in range(3000):
    h.pwrite(bytes([i % 251]) * 700, (i * 7919 * 700) % (64 << 20))
EOP
require_python_nbd

cached_below() # BYTES
{
	[ "$(cached_bytes "$image")" -lt "$1" ]
}

start() # PAGE-CACHE
{
	cp "$dir/first" "$image"
	drop_cache "$image"
	cached_below 1048576 || skip "this machine keeps the image in its page cache"
	start_server -- "$image" engine="$engine" direct-io=off page-cache="$1" control="$dir/control"
	expect_log "disk\\.img: .*, direct I/O off \\(direct-io=off\\), page cache $1( \\(without RWF_DONTCACHE: .+\\))?, "
}

drop_leaves_nothing()
{
	start drop
	quietly nbdcopy "$uri" "$dir/copy"
	quietly cmp "$dir/first" "$dir/copy"
	wait_until "what was read is dropped" cached_below 262144
	quietly nbdcopy --request-size=65536 "$dir/second" "$uri"
	wait_until "what was written is dropped" cached_below 262144
	quietly nbdcopy --request-size=1048576 "$dir/first" "$uri"
	quietly "$python" "$dir/small.py" "$uri"
	wait_until "small writes are dropped" cached_below 262144
	quietly nbdcopy "$uri" "$dir/copy"
	stop_server
	quietly cmp "$image" "$dir/copy"
	# What is read again after an end of the server is what is on the disk.
	drop_cache "$image"
	quietly cmp "$image" "$dir/copy"
}

keep_keeps()
{
	start keep
	quietly nbdcopy "$uri" "$dir/copy"
	sleep 1
	! cached_below $((size / 2)) || fail "page-cache=keep has dropped pages"
	stop_server
}

each_target drop_leaves_nothing
each_target keep_keeps

# The status, and the choices.
engine=threads
for server_program in $servers; do
	start drop
	expect_equal "status" drop "$(control "$dir/control" status exports.0.page_cache)"
	stop_server
	start_server -- "$image" offset=100 direct-io=auto
	expect_log 'direct I/O off \(offset=100 .*\), page cache drop'
	stop_server
	start_server -- "$image" direct-io=on page-cache=drop
	expect_log 'page-cache=drop has no effect with direct-io=on'
	expect_log 'direct I/O on \([^)]*\), page cache drop \(no effect with direct I/O\)'
	stop_server
done
mount_at "$dir/memory" -t tmpfs -o size=4M tmpfs
truncate -s 1M "$dir/memory/disk.img"
refuse_start -- "$dir/memory/disk.img" page-cache=drop
expect_log 'disk\.img: page-cache=drop is not possible: the image is in memory; page-cache=auto or keep'
refuse_nbdloopd 1 --page-cache=drop -U "$dir/sock" "$dir/memory/disk.img"
expect_log 'page-cache=drop is not possible: the image is in memory'
