#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# More clients than there are places, which say nothing and come back when they are dropped, keep a
# client with a key out for a few seconds at most: those that have not chosen an export never take
# the last places.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
[ "$(nbdloopd --help | grep -c -- --tls-psk)" -gt 0 ] || skip "built without TLS"
image=$dir/disk.img
truncate -s 1M "$image"
printf 'alice:%064d\n' 1 >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"
port=$(free_port)
start_nbdloopd --port "$port" --tls-psk="$dir/keys.psk" "$image"
"$python" "$own_python" "$port" "$dir/keys.psk" 3 >"$dir/client.log" 2>&1 || fail "$(tail -n 1 "$dir/client.log")"
expect_log 'all 50 connections for clients that have not chosen an export yet are taken'
stop_server
