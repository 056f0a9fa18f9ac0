#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each client of an export, by its identity, has limits of its own, which its connections share; it
# gets no other burst by connecting again; the limits change while its requests are held back.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
head -c 4M /dev/zero >"$image"

try() # TEST OPTIONS: a test of the program, with a server that has these limits
{
	local port

	port=$(free_port)
	# Of a slow disk, requests that have passed a limit could complete together.
	start_nbdloopd --control "$dir/control" --threads=2 --address=127.0.0.1 --port="$port" --export "disk=$image,direct-io=off,$2"
	"$python" "$own_python" "$1" "$port" "$dir/control" >"$dir/$1.log" 2>&1 || fail "$1: it is not so"
	stop_server
}

try shares "client-iops-limit=100 burst:1"
try both "iops-limit=60 burst:1,client-iops-limit=100 burst:1"
try returns "client-iops-limit=1 burst:50"
try changes "client-iops-limit=1 burst:1"
try connections client-connections-limit=1
expect_log 'refused: a client has as many connections to the export "disk" as it may have \(client-connections-limit\)'
