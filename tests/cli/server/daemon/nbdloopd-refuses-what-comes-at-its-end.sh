#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGTERM, the server carries out every request that clients have already sent, even one that has
# to wait, and refuses later ones with ESHUTDOWN. After the time limit, it also refuses the requests
# that still wait, and does not carry them out.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

start() # [OPTION...]
{
	rm -f "$image"
	dd if=/dev/zero of="$image" bs=8M count=8 status=none
	start_nbdloopd --engine="$engine" --threads=1 --memory=32M --control="$dir/control" "$@" "$image"
}

run_clients() # CASE
{
	"$python" "$own_python" "$uri" "$image" "$log" "$pid" "$1" "$dir/control" >"$dir/client.log" 2>&1
}

refuses()
{
	start
	run_clients drained ||
		fail "wrong with engine $engine"
	end_process server
	expect_equal "status at the end" 0 "$end_status"
	reject_log 'unanswered'

	start --drain-limit=$((2 * time_factor))
	run_clients limited ||
		fail "wrong after the limit with engine $engine"
	end_process server
	expect_equal "status at the end" 0 "$end_status"
}

each_engine refuses
