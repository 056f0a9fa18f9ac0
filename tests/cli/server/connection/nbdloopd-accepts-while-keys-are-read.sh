#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What nbdloopd reads at SIGHUP may be on a file server that is away: clients can connect meanwhile,
# and SIGTERM ends the server.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
keys=$dir/keys.slow.img # a name that slow_file makes slow
gate=$dir/gate
truncate -s 1M "$image"
printf 'alice:%064d\n' 1 >"$keys"
preload slow_file SLOW_GATE="$gate"

# The server begins to read its keys, from a file system that does not answer.
read_keys()
{
	rm -f "$gate.reached"
	: >"$gate"
	kill -HUP "$pid"
	wait_until "the keys are being read" test -e "$gate.reached"
}

start_nbdloopd --drain-limit=1 --tls=allow --tls-psk="$keys" "$image"
read_keys
quietly timeout $((20 * time_factor)) nbdinfo --size "$uri"
rm "$gate"
wait_until "the keys were read" grep -q 'keys of TLS were read again' "$log"

read_keys
kill -TERM "$pid"
wait_until "the server ends" process_gone "$pid"
end_process server
expect_equal status 0 "$end_status"
expect_log 'warning: the reading of the configuration has not finished'
