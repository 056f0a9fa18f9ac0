#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 1200
# The source of bench/attach's table: how long it takes to attach a device and to detach it, with
# nbdloop, and with nbd-client and nbd-server. For each step it prints "took: NAME: MICROSECONDS".
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require nbd-client
require nbd-server
image=$dir/disk.img
truncate -s 64M "$image"
cat >"$dir/nbd.conf" <<END
[generic]
	user = root
	group = root
	unixsock = $dir/peer.sock
[disk]
	exportname = $image
END

took() # NAME COMMAND...
{
	local name=$1 start
	shift
	start=${EPOCHREALTIME/./}
	"$@" >"$dir/step.log" 2>&1 || fail "$name: $*"
	echo "took: $name: $((${EPOCHREALTIME/./} - start))"
}

peer_connect()
{
	nbd-client -unix "$dir/peer.sock" /dev/nbd1 -name disk -b 4096 -timeout 600 "$@"
}

# nbd-server's first process returns before the server listens.
peer_attach()
{
	nbd-server -C "$dir/nbd.conf" -p "$dir/nbd-server.pid"
	until [ -S "$dir/peer.sock" ]; do
		sleep 0.02
	done
	peer_connect
}

peer_detach()
{
	nbd-client -d /dev/nbd1
	kill "$(<"$dir/nbd-server.pid")"
}

client_of_nbdloopd() # CONNECTIONS
{
	nbd-client -unix "$sock" /dev/nbd1 -b 4096 -timeout 600 -connections "$1"
}

modprobe nbd nbds_max=64
for ((round = 0; round < ${NBDLOOP_ROUNDS:-7}; round++)); do
	took "an empty program" /bin/true
	took "nbdloop attach, a device's first time" nbdloop attach "$image" "/dev/nbd$((16 + round))"
	nbdloop_detach "/dev/nbd$((16 + round))"
	took "nbdloop attach" nbdloop attach "$image" /dev/nbd0
	took "nbdloop detach" nbdloop detach /dev/nbd0
	took "nbdloop attach, 16 connections" nbdloop attach --connections=16 "$image" /dev/nbd0
	took "nbdloop detach, 16 connections" nbdloop detach /dev/nbd0
	took "nbd-server and nbd-client" peer_attach
	took "nbd-client -d, and the server's end" peer_detach
	rm -f "$dir/peer.sock"
	start_nbdloopd "$image"
	took "nbd-client alone, of a running nbdloopd" client_of_nbdloopd 1
	took "nbd-client -d alone" nbd-client -d /dev/nbd1
	took "nbd-client alone, 16 connections" client_of_nbdloopd 16
	nbd-client -d /dev/nbd1
	stop_server
done
