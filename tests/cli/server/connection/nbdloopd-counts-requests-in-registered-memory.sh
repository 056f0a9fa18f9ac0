#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The status of nbdloopd counts the reads and writes whose memory is registered with io_uring: but
# for the first of each size, all of them, whatever their size; also those that go through bounce
# buffers.  Their data is right.  A server whose requests don't go through a ring counts none.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require_lockable_memory
socket=$dir/control

counts()
{
	rm -f "$dir/disk.img"
	truncate -s 64M "$dir/disk.img"
	start_nbdloopd --threads 1 --engine "$engine" --direct-io on --control "$socket" "$dir/disk.img"
	[ "$engine" != io_uring ] || ! grep -q 'buffers are not registered' "$log" ||
		skip "$(grep 'buffers are not registered' "$log")"
	quietly "$python" "$own_python" "$sock" "$socket" "$engine"
	stop_server
}

each_engine counts
