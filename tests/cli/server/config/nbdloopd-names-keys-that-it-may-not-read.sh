#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# If nbdloopd may not read its keys, it names the user, and the command that lets that user read
# them; it ends with status 2, after which systemd does not start it again.
. "$(dirname "$0")/../../../lib/functions.sh"

[ "$(nbdloopd --help | grep -c -- --tls-psk)" -gt 0 ] || skip "built without TLS"
[ "$(id -u)" = 0 ] || skip "needs root, to become another user"
use_unprivileged_server
truncate -s 1M "$dir/disk.img"
chown nobody "$dir/disk.img"
mkdir -m 700 "$dir/secret"
echo alice:000102030405060708090a0b0c0d0e0f >"$dir/secret/keys.psk"
chmod 600 "$dir/secret/keys.psk"
group=$(id -gn nobody)

# Does what the last line of the log says, and nothing else.
obey()
{
	local command
	command=$(sed -n "s/.*: the user nobody may not read it: //p" "$dir/said.log")
	[ "$command" = "chgrp $group $1 && chmod g+$2 $1" ] || fail "nbdloopd says: $(cat "$dir/said.log")"
	eval "$command"
}

start() # OPTION...
{
	local status=0
	timeout $((20 * time_factor)) "${as_nobody[@]}" "$top_builddir/server/nbdloopd" -U "$dir/refused.sock" \
		--tls-psk="$dir/secret/keys.psk" "$@" "$dir/disk.img" >"$dir/said.log" 2>&1 || status=$?
	echo "$status"
}
expect_equal "status" 2 "$(start)"
obey "$dir/secret" x
expect_equal "status of --check-config" 2 "$(start --check-config)"
expect_equal "status" 2 "$(start)"
obey "$dir/secret/keys.psk" r
expect_equal "status of --check-config" 0 "$(start --check-config)"
