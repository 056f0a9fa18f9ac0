#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's rules decide by user, group and address which exports a client is listed, may use and
# may write; each refusal is a line in the log.  Rules change at SIGHUP and on the control socket,
# which also ends the connections of clients that a rule names.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require_root "clients are several users"
for name in team shared hidden near later own; do
	head -c 1M /dev/zero >"$dir/$name.img"
done
port=$(free_port)
default_rules=

configure() # RULES-OF-TEAM...
{
	{
		printf '%s\n' '[server]' "port = $port" "$default_rules"
		printf '%s\n' '[export team]' "file = $dir/team.img" "$@"
		printf '%s\n' '[export shared]' "file = $dir/shared.img" 'allow-write = user:daemon' 'allow = any'
		printf '%s\n' '[export hidden]' "file = $dir/hidden.img" 'allow = none'
		printf '%s\n' '[export near]' "file = $dir/near.img" 'allow = net:127.0.0.0/8, gid:12'
	} >"$dir/conf"
}

configure 'allow = uid:4242 group:bin'
umask 0 # any user may connect
start_nbdloopd --config "$dir/conf" --control "$dir/control" --threads 2
umask 022
expect_log 'export "team": clients need a rule: allow=uid:4242 group:bin'

step()
{
	"$python" "$own_python" "$1" "$sock" "$port" "$dir/control" >"$dir/check.log" 2>&1 || fail "$1"
}

reread_twice()
{
	[ "$(grep -c "read again" "$log")" = 2 ]
}

step users
expect_equal "lines about refusals" 6 "$(grep -c 'warning: .*: refused: no rule lets this client use' "$log")"
expect_log 'warning: unix \(pid [0-9]*, uid 4243\): refused: no rule lets this client use the export "team"'
expect_log 'warning: 127.0.0.1:[0-9]*: refused: no rule lets this client use the export "hidden"'
# That of the export that doesn't exist.
expect_equal "other ends" 1 "$(grep -c 'disconnected: there is no export' "$log")"
step addresses
step changes

# The rules of the file hold again, and new ones without a restart.
configure 'allow = uid:4243'
kill -HUP "$pid"
wait_until "the configuration was read again" grep -q "read again" "$log"
reject_log 'needs a restart'
expect_log 'export "team": clients need a rule: allow=uid:4243'
step reread

# An export that is added later has the default rules of now.
default_rules='allow = uid:4242'
configure 'allow = uid:4243'
kill -HUP "$pid"
wait_until "the configuration was read again" reread_twice
step later

# A rule with an error changes nothing.
configure 'allow = user:nobody-of-this-name'
kill -HUP "$pid"
wait_until "the error is told" grep -q 'export "team": allow: user:nobody-of-this-name: there is no user' "$log"
expect_log 'stays as it is'
step reread
stop_server
