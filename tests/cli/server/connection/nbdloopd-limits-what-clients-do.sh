#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients of an export with limits get what these allow and no more, and share it; what is held back
# goes on at once when a limit is changed, and neither delays the server's end nor a disconnection.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
socket=$dir/control
head -c 4M /dev/zero >"$image"

try() # TEST OPTIONS [ARGUMENT...]: a test of the program, with a server that has these limits
{
	local name=$1 options=$2

	shift 2
	start_nbdloopd --control "$socket" --threads=2 --export "disk=$image,$options"
	"$python" "$own_python" "$name" "$sock" "$socket" "$@" >"$dir/$name.log" 2>&1 || fail "$name: it is not so"
}

try rate iops-limit=400,,burst:20
expect_equal "the limit in the status" 400 "$(control "$socket" status exports.0.limits.iops.both)"
stop_server
try bandwidth "bandwidth-limit=write:2M burst:64k"
stop_server
try fair "iops-limit=100 burst:1"
stop_server
try changes "iops-limit=1 burst:1"
stop_server
try large "direct-io=off,bandwidth-limit=2M burst:8k"
stop_server
try rested "iops-limit=1 burst:100"
stop_server
try ends "iops-limit=1 burst:1" "$image"
stop_server
try connections connections-limit=1
expect_log 'refused: the export "disk" has as many connections as it may have \(connections-limit\)'
stop_server

# At its end, the server carries out what it has held back.
try drains "iops-limit=1 burst:1" "$image"
end_process server
expect_equal "status at the end" 0 "$end_status"
