#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The control socket, which only the server's user may use, answers with the status as JSON: every
# fact of every export, and counters that increase.
. "$(dirname "$0")/../../lib/functions.sh"

require_python_nbd
image="$dir/a \"quoted\" näme.img"
socket=$dir/control

nobody_connected()
{
	[ "$(control "$socket" status exports.0.connections)" = 0 ]
}

facts_are_right()
{
	rm -f "$image"
	truncate -s 10M "$image"
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 offset=1M discard=off \
		contexts=3 depth=5 control="$socket"
	expect_equal "mode of the socket" 600 "$(stat -c %a "$socket")"
	connect_once
	wait_until "the client is not counted any more" nobody_connected
	control "$socket" status >"$dir/status.log"
	"$python" "$own_python" facts "$dir/status.log" "$image" "$pid" "$engine" >"$dir/check.log" 2>&1 || fail "wrong status"
	stop_server
	[ ! -e "$socket" ] || fail "the server left its control socket behind"
}

counters_count()
{
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 control="$socket"
	"$python" "$own_python" counters "$uri" "$socket" >"$dir/check.log" 2>&1 || fail "wrong counters"
	wait_until "the client is not counted any more" nobody_connected
	stop_server
}

each_engine facts_are_right
each_engine counters_count
