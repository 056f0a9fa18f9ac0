#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd feeds systemd's watchdog only while each of its event loops, and its main thread, turns;
# one that hangs is named in the log.  Idle loops are hardly woken for that, and without a watchdog
# not at all.
. "$(dirname "$0")/../../../lib/functions.sh"

truncate -s 1M "$dir/disk.img"
for engine in io_uring threads; do
	"$python" "$own_python" "$dir" "$engine" >"$dir/check.log" 2>&1 || fail "the watchdog is wrong ($engine)"
done
