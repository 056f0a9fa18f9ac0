#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop checkpoint begins checkpoints of an nbdloopd's exports, lists them and ends them, by its
# control socket, and names what is wrong. An increment copies what has changed since.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require jq qemu-io cmp
image=$dir/disk.img
truncate -s 1M "$image" "$dir/other.img"
start_nbdloopd --control "$dir/control" --export "disk=$image" --export "other disk=$dir/other.img"
uri="nbd+unix:///disk?socket=$sock"

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop checkpoint "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop checkpoint $* doesn't say: $wanted"
}

list() # [OPTION...]
{
	nbdloop checkpoint --json "$@" list "$dir/control" | jq -r '.[] | "\(.export): \(.name) \(.granularity)"' | paste -sd,
}

expect_equal "the list" "" "$(nbdloop checkpoint list "$dir/control")"
quietly nbdloop checkpoint create "$dir/control" one
quietly nbdloop checkpoint --granularity=4k create "$dir/control:other disk" two
expect_equal "the list" "disk: one 65536,other disk: one 65536,other disk: two 4096" "$(list)"
expect_equal "the list of one export" "other disk: one 65536,other disk: two 4096" "$(list --export="other disk")"
# A socket in /dev is no device.
if [ -w /dev/shm ]; then
	link=$(mktemp -u /dev/shm/XXXXXXXX.ctl)
	ln -s "$dir/control" "$link"
	on_exit rm -f "$link"
	expect_equal "the checkpoints of an export" 2 "$(nbdloop checkpoint list "$link:other disk" | grep -c "other disk")"
fi
expect_equal "the checkpoints of an export" 2 "$(nbdloop checkpoint list "$dir/control:other disk" | grep -c "other disk")"
nbdloop checkpoint list "$dir/control" >"$dir/table"
grep -qE '^20[0-9-]+ [0-9:]+ +4096 +two other disk$' "$dir/table" || fail "the table is: $(cat "$dir/table")"

quietly nbdloop backup --bitmap=one "$uri" "$dir/copy.img"
quietly qemu-io -f raw -c 'write -P 1 256k 64k' "$uri"
nbdloop backup --json --incremental "$uri" "$dir/copy.img" >"$dir/backup.json" || fail "the increment fails"
quietly cmp "$image" "$dir/copy.img"
expect_equal "bytes that were copied" 65536 "$(jq -s 'last.data' "$dir/backup.json")"

refuses 'there is a checkpoint one already' create "$dir/control" one
refuses 'there is no checkpoint two' delete "$dir/control" two
refuses 'no such export|no export' --export=none create "$dir/control" three
refuses 'there is no export "none"' --export=none list "$dir/control"
refuses 'there is no export "none"' list "$dir/control:none"
refuses 'named twice: leave out --export=disk' --export=disk create "$dir/control:disk" three
refuses 'no such export|no export' create "$dir/control:none" three
refuses 'NAME "a b": must be a word' create "$dir/control" "a b"
refuses 'power of 2 from 4 KiB to 1 MiB' --granularity=5000 create "$dir/control" three
quietly nbdloop checkpoint --export="other disk" delete "$dir/control" two
quietly nbdloop checkpoint delete "$dir/control" one
expect_equal "the list" "" "$(list)"
must_fail nbdloop backup --incremental "$uri" "$dir/copy.img"
stop_server
