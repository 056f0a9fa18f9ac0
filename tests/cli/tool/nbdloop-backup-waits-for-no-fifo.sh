#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A FIFO that somebody put among the backups is refused: nbdloop backup and nbdloop restore would
# wait for its other end for ever.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
disk=$dir/disk.img copy=$dir/copy.img chain=$dir/chain
truncate -s 64k "$disk"
start_nbdloopd --control "$dir/control" --export "disk=$disk"
there="nbd+unix:///disk?socket=$sock"
quietly nbdloop checkpoint create "$dir/control" monday
quietly nbdloop backup --bitmap=monday "$there" "$copy"
quietly nbdloop backup --bitmap=monday --format=delta "$there" "$chain"

# refuses FILE ARGUMENT...: nbdloop ARGUMENT... while FILE is a FIFO
refuses()
{
	local file=$1 status=0
	shift
	test ! -e "$file" || mv "$file" "$dir/aside"
	mkfifo "$file"
	timeout $((20 * time_factor)) "$top_builddir/wrapper/nbdloop" "$@" >"$dir/said" 2>&1 || status=$?
	expect_equal "status of nbdloop $* with the FIFO $file" 1 "$status"
	grep -qF "nbdloop: $file" "$dir/said" || fail "it doesn't name $file: $(cat "$dir/said")"
	rm "$file"
	test ! -e "$dir/aside" || mv "$dir/aside" "$file"
}

refuses "$copy.state" backup --incremental "$there" "$copy"
refuses "$copy.redo" backup --incremental "$there" "$copy"
refuses "$copy" backup --force "$there" "$copy"
refuses "$dir/replica.state" backup --state="$dir/replica.state" "$there" "nbd+unix:///?socket=$dir/none"
refuses "$chain/000000.delta" backup --format=delta --incremental "$there" "$chain"
refuses "$chain/000001.delta" restore "$chain" "$dir/restored.img"
quietly nbdloop backup --incremental "$there" "$copy"
quietly nbdloop restore "$chain" "$dir/restored.img"
stop_server
