#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop snapshot makes an export of what an export holds now, and removes it, by the control
# socket of its server, also of one that listens nowhere, as a device's; and names what is wrong.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
image=$dir/disk.img
head -c 1M /dev/urandom >"$image"
cp "$image" "$dir/old.img"
start_nbdloopd --control "$dir/control" --export "disk=$image" --export "other disk=$dir/old.img,read-only=on"

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop snapshot "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop snapshot $* doesn't say: $wanted"
}

expect_equal "output" "" "$(cd "$dir" && nbdloop snapshot --scratch=. --scratch-size=1M --expire=1000 control then disk)"
expect_equal "limit" 1048576 "$(control "$dir/control" status exports.2.snapshot.scratch_size)"
expires=$(control "$dir/control" status exports.2.snapshot.expires_in)
[ "$expires" -gt 900 ] && [ "$expires" -le 1000 ] || fail "the snapshot ends in $expires seconds"
quietly "$python" -c 'import sys, client; client.connect(sys.argv[1], "disk").pwrite(b"n" * 512, 512)' "$sock"
nbdcopy "nbd+unix:///then?socket=$sock" "$dir/copy.img" || fail "nbdcopy fails"
quietly cmp "$dir/old.img" "$dir/copy.img"
quietly nbdloop snapshot "$dir/control:other disk" "of-blanks"

refuses 'which export' "$dir/control" new
refuses 'there is one of that name already' "$dir/control" then disk
refuses 'no such export' "$dir/control" new none
refuses 'NEW "a b": must be a word' "$dir/control" "a b" disk
refuses 'NEW "a.*must be a word' "$dir/control" $'a\nremove' disk
refuses 'EXPORT "disk.*must be one line' "$dir/control" a $'disk\nremove export=disk'
refuses 'no such export' "$dir/control:none" new
refuses 'named twice: leave out "disk"' "$dir/control:disk" new disk
refuses 'has no snapshot "then"' --remove "$dir/control:other disk" then
refuses '--all takes no EXPORT' --all "$dir/control:disk" new
refuses '--scratch ".*/a b": must be a word' --scratch="a b" "$dir/control" new disk
refuses 'scratch=DIR names another directory' --scratch="$dir/none" "$dir/control" new disk
refuses '--freeze is for a device' --freeze "$dir/control" new disk
# Only snapshots are removed.
refuses 'has no snapshot "disk"' --remove "$dir/control" disk
refuses 'has no snapshot "none"' --remove "$dir/control" none
refuses '--remove takes the name of a snapshot, and nothing else' --remove --expire=5 "$dir/control" then
quietly nbdloop snapshot --remove "$dir/control" then
expect_equal "the exports" "disk other disk of-blanks" \
	"$(for i in 0 1 2; do control "$dir/control" status exports.$i.name; done | paste -sd' ')"
# Of all exports, with a checkpoint that begins at the same moment.
quietly nbdloop snapshot --remove "$dir/control:other disk" of-blanks
quietly nbdloop snapshot --all --checkpoint=monday "$dir/control" now
expect_equal "the snapshots" "disk@now other disk@now" \
	"$(for i in 2 3; do control "$dir/control" status exports.$i.name; done | paste -sd' ')"
expect_equal "the checkpoints of exports" 2 "$(nbdloop checkpoint list "$dir/control" | grep -c monday)"
expect_equal "the checkpoint in a snapshot" 1 "$(nbdloop checkpoint --export=disk@now list "$dir/control" | grep -c monday)"
expect_equal "what has changed" "0 1048576 0" "$(nbdinfo --map=qemu:dirty-bitmap:monday "nbd+unix:///disk@now?socket=$sock" | awk '{ print $1, $2, $3 }')"
refuses '--all takes no EXPORT' --all "$dir/control" new disk
refuses '--checkpoint "a b": must be a word' --checkpoint="a b" "$dir/control" new disk
refuses 'there is a checkpoint monday already' --checkpoint=monday "$dir/control" new disk
refuses 'has no snapshot "new"' --remove --all "$dir/control" new
refuses '--remove takes the name of a snapshot, and nothing else' --remove --checkpoint=a "$dir/control" now
quietly nbdloop snapshot --remove --all "$dir/control" now
expect_equal "the exports" "disk other disk" \
	"$(for i in 0 1; do control "$dir/control" status exports.$i.name; done | paste -sd' ')"
stop_server

quietly "$python" "$own_python" "$image" "$dir/device.sock" "$top_builddir/tool/nbdloop" "$top_builddir/server/nbdloopd"
