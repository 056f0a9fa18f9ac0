#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The checkpoints of a clone outlive its servers, although these write to the layer's file without a
# change of the disk. A change by a server without the record, and another base, make them unknown.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io nbdinfo
control=$dir/control
base=$dir/base.raw
layer=$dir/vm.layer
truncate -s 16M "$base"
quietly nbdloop clone "$base" "$layer"

start() # [OPTION]...
{
	start_nbdloopd --control "$control" "$@" "$layer"
}

map()
{
	nbdinfo --map=qemu:dirty-bitmap:monday "$uri" 2>"$dir/nbdinfo.log" | awk '{ print $1, $2, $3 }' | paste -sd ,
}

use() # QEMU-IO-COMMAND...
{
	local commands=() command
	for command; do
		commands+=(-c "$command")
	done
	quietly qemu-io -f raw "${commands[@]}" "$uri"
}

is_unknown()
{
	must_fail nbdloop checkpoint list "$control"
	expect_log 'the image was changed without this server: take a full backup'
	quietly nbdloop checkpoint delete "$control" monday
	quietly nbdloop checkpoint create "$control" monday
}

start
use 'write -P 1 0 64k' flush
quietly nbdloop checkpoint create "$control" monday
unchanged="0 16777216 0"
expect_equal "map" "$unchanged" "$(map)"

# Servers that change nothing, however they end.
stop_server
start
expect_equal "map after an end" "$unchanged" "$(map)"
end_process server KILL
start
expect_equal "map after a kill" "$unchanged" "$(map)"
stop_server
start -r
expect_equal "map of a reader" "$unchanged" "$(map)"
stop_server
nbdloopd --changes=none --run 'qemu-io -r -f raw -c "read 0 4k" "$uri"' "$layer" >"$dir/other.log" 2>&1 || fail "$(cat "$dir/other.log")"

# Changes, and flushes, whose marks the server writes later.
start
use 'write -P 2 1M 64k' 'write -P 3 1000k 512' flush
changed="0 983040 0,983040 131072 1,1114112 15663104 0"
expect_equal "map" "$changed" "$(map)"
use flush
end_process server KILL
start
expect_equal "map after a kill" "$changed" "$(map)"
use flush
stop_server
start
expect_equal "map after an end" "$changed" "$(map)"
stop_server

# Another server, without the record.
nbdloopd --changes=none --run 'qemu-io -f raw -c "write -P 4 8M 4k" "$uri"' "$layer" >"$dir/other.log" 2>&1 || fail "$(cat "$dir/other.log")"
start
is_unknown
expect_equal "map" "$unchanged" "$(map)"
stop_server
start
expect_equal "map" "$unchanged" "$(map)"
end_process server KILL
nbdloopd --changes=none --run 'qemu-io -f raw -c "discard 8M 4k" "$uri"' "$layer" >"$dir/other.log" 2>&1 || fail "$(cat "$dir/other.log")"
start
is_unknown
stop_server

# A base with other bytes.
touch "$base"
start --changed-base
is_unknown
stop_server
start --changed-base
is_unknown
stop_server
