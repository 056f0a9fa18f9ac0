#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that finds no place among --max-connections is told so, over a unix socket and over TCP,
# also where TLS is required.  Those that stay silent hold nobody up.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 1M "$image"
port=$(free_port)
printf 'alice:%064d\n' 1 >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"

# Of clients of a server with two places.
check() # WHAT [OPTION...]
{
	local what=$1
	shift
	start_nbdloopd --port "$port" --max-connections=2 "$@" "$image"
	"$python" "$own_python" "$what" "$sock" "$port" "$dir/keys.psk" >"$dir/client.log" 2>&1 ||
		fail "$what: $(tail -n 1 "$dir/client.log")"
	expect_log 'refused: there are 2 connections already \(max-connections\)'
	stop_server
}

server_files
check clear
[ "$(nbdloopd --help | grep -c -- --tls-psk)" -gt 0 ] || exit 0
check tls --tls=require --tls-psk="$dir/keys.psk"
