#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The thread that receives a request reads and writes an image in memory (tmpfs) itself, without a
# ring and without another thread for the image; the start-up line says so. A user who asks for
# another engine gets that engine.
. "$(dirname "$0")/../../lib/functions.sh"

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
# These are the event loop's thread, the one for signals, the one that looks at files when a client
# connects, and in the sandbox the one that makes rings; threads that looked for holes end when they
# have nothing to do.
has_few_threads() { [ "$(threads_of "${process_pids[server]}")" -le 4 ]; }
wait_until "nbdloopd has four threads at most" has_few_threads
stop_server

copies_both_ways start_nbdloopd --threads=1 --engine=io_uring "$image"
expect_log 'engine io_uring,'
