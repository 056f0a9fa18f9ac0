#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What nbdloopd reads at SIGHUP may be on a file server that is away: clients can connect meanwhile,
# and SIGTERM ends the server.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
keys=$dir/keys.psk
truncate -s 1M "$image"
printf 'alice:%064d\n' 1 >"$keys"

is_reading()
{
	local link
	for link in /proc/"$pid"/fd/*; do
		[ "$(readlink "$link")" != "$keys" ] || return 0
	done
	return 1
}

# The server begins to read its keys, from a pipe that has none yet.
read_keys()
{
	rm "$keys"
	mkfifo "$keys"
	exec 5<>"$keys"
	kill -HUP "$pid"
	wait_until "the keys are being read" is_reading
}

start_nbdloopd --drain-limit=1 --tls=allow --tls-psk="$keys" "$image"
read_keys
quietly timeout $((20 * time_factor)) nbdinfo --size "$uri"
printf 'alice:%064d\n' 2 >&5
exec 5>&-
wait_until "the keys were read" grep -q 'keys of TLS were read again' "$log"

read_keys
kill -TERM "$pid"
wait_until "the server ends" process_gone "$pid"
end_process server
expect_equal status 0 "$end_status"
expect_log 'warning: the reading of the configuration has not finished'
