#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# As soon as a server has ended, in whatever way, the next server gets the image.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
truncate -s 16M "$image"

serve_once()
{
	start_server -- "$image" engine="$engine"
	quietly nbdinfo "$uri"
}

restarts()
{
	local end
	for end in stop_server stop_server stop_server kill_server kill_server kill_server stop_server; do
		serve_once
		$end
	done
}

each_engine restarts
