#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What nbdloop attach --tls=proxy puts between the kernel and a server encrypts for servers of all
# kinds, over TCP and unix sockets.  Killed servers and proxies cause no error and lose no write;
# the key is in no command line; and no proxy is left, and none keeps a file of its caller open.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdkit
cd "$dir"
nbdloop keys certificates pki --server=localhost --client=alice >said.log 2>&1 || skip "this nbdloop was built without GnuTLS"
nbdloop keys psk keys.psk alice >said.log
truncate -s 16M disk.img

# Those of this test have its server's URI in their command line, as their parent has.
proxies()
{
	local pid found=()
	for pid in $(pgrep -x nbdloop-proxy); do
		! grep -aqF "$remote" "/proc/$pid/cmdline" 2>/dev/null || found+=("$pid")
	done
	echo "${found[*]}"
}
proxies_are() # COUNT
{
	local found
	read -ra found <<<"$(proxies)"
	[ ${#found[@]} -eq "$1" ]
}

# How many they are depends on how many connections the load saw end at once.
are_replaced() # PID...
{
	local found
	found=$(proxies)
	[ -n "$found" ] || return 1
	for pid; do
		[[ " $found " != *" $pid "* ]] || return 1
	done
}

start_load() # OPTION=VALUE...
{
	rm -f stop
	spawn load "$top_builddir/tests/cli/proxied_load" "$dir/stop" "$remote" tls=proxy "$@"
	wait_until "the load has begun" grep -q proxy load.log
}
end_load() # LOSSES (a regular expression)
{
	: >stop
	end_process load
	expect_equal "status of the load" 0 "$end_status"
	grep -qE "^[1-9][0-9]* writes, $1 losses$" load.log || fail "not $1 losses, or no writes"
	wait_until "no proxy is left" proxies_are 0
}

# ---- over TCP, with keys and several connections
port=$(free_port)
remote="nbds://alice@127.0.0.1:$port/"
start_tcp()
{
	start_nbdloopd --address 127.0.0.1 --port "$port" --tls-psk "$dir/keys.psk" --threads 2 "$dir/disk.img"
}
start_tcp
start_load tls-psk="$dir/keys.psk" connections=3
grep -qx '1.3 AES-128-GCM proxy' load.log || fail "not the expected cipher"
wanted=$(nproc)
[ "$wanted" -lt 3 ] || wanted=3
wait_until "a proxy for each connection, or for each processor" proxies_are "$wanted"
sed 's/.*://' keys.psk >key
! grep -aqFf key /proc/[0-9]*/cmdline 2>/dev/null || fail "the key is in a command line"
read -ra pids <<<"$(proxies)"
kill_server
start_tcp
wait_until "the load goes on" are_replaced "${pids[@]}"
read -ra pids <<<"$(proxies)"
kill -KILL "${pids[@]}"
wait_until "the proxies are replaced" are_replaced "${pids[@]}"
end_load '[1-9][0-9]*'
stop_server

# ---- over a unix socket, with certificates; the proxy outlives its guard, but not the connections
sock=$dir/server.sock
remote="nbds+unix:///?socket=$sock"
spawn nbdkit nbdkit -f -U "$sock" --tls=require --tls-verify-peer --tls-certificates="$dir/pki" memory 16M
wait_until "nbdkit listens" listens "$sock"
start_load tls-certificates="$dir/pki/alice"
end_load 0
start_load tls-certificates="$dir/pki/alice"
end_process load KILL
wait_until "no proxy is left" proxies_are 0
end_process nbdkit TERM
