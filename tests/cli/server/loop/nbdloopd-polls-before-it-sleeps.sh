#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With --poll-max-us, a thread whose client sends one request after the other finds most events
# without sleeping, and sleeps when the client is idle. Without the option, the thread sleeps for
# each event.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 1M "$image"

# The time is longer than a loaded machine needs between two requests.
polls()
{
	start_nbdloopd --engine="$engine" --threads=1 --control "$dir/control" "$@" "$image"
	"$python" "$own_python" "$uri" "$dir/control" "$pid" "$*" >"$dir/client.log" 2>&1 || fail "wrong with engine $engine $*"
	stop_server
}

both()
{
	polls
	reject_log 'polls up to'
	polls --poll-max-us=100000
	expect_log 'each of 1 threads polls up to 100000 us'
}

each_engine both
