#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An image in memory (tmpfs) is read and written by the thread that has the request: no ring, and no
# further thread for it; the line at the start says so.  Who asks for another engine gets that.
. "$(dirname "$0")/../lib/functions.sh"

require nbdcopy
require_root "mounting a tmpfs"
mount_at "$dir/memory" -t tmpfs -o size=64m tmpfs
image=$dir/memory/disk.img
head -c 8M /dev/urandom >"$dir/data"

copies_both_ways()
{
	truncate -s 0 "$image"
	truncate -s 8M "$image"
	"$@"
	quietly nbdcopy "$dir/data" "$uri"
	quietly nbdcopy "$uri" "$dir/back"
	cmp "$dir/data" "$dir/back" || fail "other bytes came back"
	cmp "$dir/data" "$image" || fail "other bytes are in the image"
}

threads_of()
{
	find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l
}

truncate -s 8M "$image"
copies_both_ways start_server -- "$image"
expect_log 'engine threads \(the image is in memory\),'
stop_server

copies_both_ways start_nbdloopd --threads=1 "$image"
expect_log 'engine threads \(the image is in memory\),'
# The event loop's, and the one of signals; those that looked for holes end when there is nothing to
# do.
has_two_threads() { [ "$(threads_of "${process_pids[server]}")" = 2 ]; }
wait_until "nbdloopd has two threads only" has_two_threads
stop_server

copies_both_ways start_nbdloopd --threads=1 --engine=io_uring "$image"
expect_log 'engine io_uring,'
