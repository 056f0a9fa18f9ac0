#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd feeds systemd's watchdog only while each of its event loops, and its main thread, turns;
# one that hangs is named in the log.  Idle loops are hardly woken for that, and without a watchdog
# not at all.
. "$(dirname "$0")/../../../lib/functions.sh"

# The engines at the same time: the test waits nearly all of its time.
for engine in io_uring threads; do
	mkdir "$dir/$engine"
	truncate -s 1M "$dir/$engine/disk.img"
	spawn "check-$engine" "$python" "$own_python" "$dir/$engine" "$engine"
done
for engine in io_uring threads; do
	poll_for 120 process_gone "${process_pids[check-$engine]}" || true
	end_process "check-$engine"
	expect_equal "what the check of the watchdog ends with ($engine)" 0 "$end_status"
done
