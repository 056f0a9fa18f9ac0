#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What a program prints to a full disk is lost, so its status says so: a script that reads a list,
# or the name of a new device, must not go on without it.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
[ -c /dev/full ] || skip "no /dev/full here"
use_recorded_system
truncate -s 1M "$dir/disk.img"
start_nbdloopd --control "$dir/control" --export "disk=$dir/disk.img"
quietly nbdloop checkpoint create "$dir/control" monday

says_so() # COMMAND [ARGUMENT...]
{
	local status=0
	timeout $((20 * time_factor)) "$@" >/dev/full 2>"$dir/said" || status=$?
	expect_equal "status of $*" 1 "$status"
	grep -q "^$1: \(error: \)\?write error: No space left on device$" "$dir/said" || fail "$* says: $(cat "$dir/said")"
}

for verb in $(nbdloop --help | sed -n 's/^    \([a-z][a-z-]*\)  .*/\1/p'); do
	says_so nbdloop "$verb" --help
done
says_so nbdloop
says_so nbdloop --help
says_so nbdloop --version
says_so nbdloop list --json
says_so nbdloop checkpoint list "$dir/control"
says_so nbdloop checkpoint list --json "$dir/control"
says_so nbdloop top --json --count=2 --delay=0.1 "$dir/control"
says_so nbdloop backup --json "nbd+unix:///disk?socket=$sock" "$dir/copy.img"
says_so nbdloopd --help
says_so nbdloopd --version
stop_server
