#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGHUP, nbdloopd looks up the users that rules name, which may take long: clients can connect
# meanwhile, a further SIGHUP has the configuration read once more, and SIGTERM ends the server.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
gate=$dir/gate
truncate -s 1M "$image"
preload slow_names SLOW_GATE="$gate"

# The server has begun to look up a name, and waits.
look_up()
{
	rm -f "$gate.reached"
	touch "$gate"
	kill -HUP "$pid"
	wait_until "a name is looked up" [ -e "$gate.reached" ]
}

readings()
{
	grep -c 'the configuration was read again' "$log"
}

is_read() # TIMES
{
	[ "$(readings)" -eq "$1" ]
}

start_nbdloopd --drain-limit=1 --allow=any,user:root "$image"
look_up
quietly timeout $((20 * time_factor)) nbdinfo --size "$uri"
kill -HUP "$pid"
quietly timeout $((20 * time_factor)) nbdinfo --size "$uri"
expect_equal "readings" 0 "$(readings)"
rm "$gate"
wait_until "the configuration was read twice" is_read 2
quietly nbdinfo --size "$uri"

look_up
kill -TERM "$pid"
wait_until "the server ends" process_gone "$pid"
end_process server
expect_equal status 0 "$end_status"
expect_log 'warning: the reading of the configuration has not finished'
