#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop restore --force, and nbdloop backup, leave a file alone that a server has open to write
# to: the server would go on with the file that was replaced, and all that it writes would be lost.
# A server that only reads is no hindrance.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io cmp
truncate -s 4M "$dir/disk.img"
raw=$dir/raw.img
start_nbdloopd --control "$dir/control" "$dir/disk.img"
disk=$uri
quietly qemu-io -f raw -c "write -P 1 1M 64k" "$disk"
quietly nbdloop backup "$dir/control" "$raw"
quietly nbdloop backup --format=delta "$dir/control" "$dir/chain"
quietly nbdloop restore "$dir/chain" "$dir/used.img"
server=other

refuses() # FILE ARGUMENT...
{
	local file=$1 before
	before=$(stat -c %i "$file")
	shift
	must_fail nbdloop "$@"
	grep -q "${file##*/}: a server .* has it open to write to it: stop that first" "$dir/refused.log" ||
		fail "nbdloop $* doesn't say it: $(cat "$dir/refused.log")"
	expect_equal "the inode of $file" "$before" "$(stat -c %i "$file")"
}

start_nbdloopd "$dir/used.img"
refuses "$dir/used.img" restore --force "$dir/chain" "$dir/used.img"
quietly qemu-io -f raw -c "write -P 2 2M 64k" "$uri"
stop_server
cp "$dir/used.img" "$dir/kept.img"
start_nbdloopd --offset=1M "$dir/used.img"
refuses "$dir/used.img" restore --force "$dir/chain" "$dir/used.img"
stop_server
quietly cmp "$dir/kept.img" "$dir/used.img"
quietly nbdloop restore --force "$dir/chain" "$dir/used.img"
quietly cmp "$dir/disk.img" "$dir/used.img"

# ---- the target of backups
start_nbdloopd "$raw"
refuses "$raw" backup "$dir/control" "$raw"
refuses "$raw" backup -i "$dir/control" "$raw"
stop_server
start_nbdloopd -r "$raw"
quietly qemu-io -f raw -c "write -P 3 3M 64k" "$disk"
quietly nbdloop backup -i "$dir/control" "$raw"
stop_server
quietly cmp "$dir/disk.img" "$raw"
server=server
stop_server
