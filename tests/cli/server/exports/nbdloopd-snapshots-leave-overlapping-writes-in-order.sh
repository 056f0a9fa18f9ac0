#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While a snapshot is held, writes that overlap each other, and wait for copies of the old data, are
# carried out in their order: no read sees older bytes than it may, and the snapshot stays as it
# was. NBDLOOP_HOLD_SECONDS says how long clients write (2, on each engine): minutes, by hand.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

overlap() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 8M "$image"
	start_nbdloopd --control "$dir/control" --engine="$engine" --direct-io="$1" "$image"
	"$python" "$own_python" "$sock" "$dir/control" "$image" "${NBDLOOP_HOLD_SECONDS:-2}" "${LOOP_SEED:-$RANDOM}" >"$dir/check.log" 2>&1 ||
		fail "data is wrong (engine $engine, direct-io=$1)"
	stop_server
}

each_engine overlap auto
engine=io_uring overlap off
