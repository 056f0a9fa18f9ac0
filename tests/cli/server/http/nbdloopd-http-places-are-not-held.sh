#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients of HTTP that are silent, or have gone, give their places to those that ask.
. "$(dirname "$0")/../../../lib/functions.sh"

require_http
truncate -s 1M "$dir/disk.img"
start_nbdloopd --http=127.0.0.1:0 "$dir/disk.img"
address=$(sed -n 's,.*page and metrics on http://\(.*\)/$,\1,p' "$log")
"$python" "$own_python" "$address" $((5 * time_factor)) >"$dir/check.log" 2>&1 ||
	fail "$(tail -n 1 "$dir/check.log")"
stop_server
