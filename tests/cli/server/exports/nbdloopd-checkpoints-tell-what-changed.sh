#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's checkpoints tell clients, as QEMU's dirty bitmaps do, what has changed since; and with
# changes=none they are gone, not empty, after the server has been started again.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
socket=$dir/control
bitmap=qemu:dirty-bitmap:monday

checkpoints_miss_nothing()
{
	truncate -s 0 "$dir/one.img" "$dir/two.img"
	truncate -s 16M "$dir/one.img" "$dir/two.img"
	start_nbdloopd --control "$socket" --threads=2 --engine="$engine" --export "one=$dir/one.img" --export "two=$dir/two.img"
	for extended in yes no; do
		"$python" "$own_python" "$sock" "$socket" "$extended" one two >"$dir/check.log" 2>&1 || fail "wrong checkpoints"
		stop_server
		rm -f "$dir"/*.changes
		start_nbdloopd --control "$socket" --threads=2 --engine="$engine" --export "one=$dir/one.img" --export "two=$dir/two.img"
	done
	stop_server
	rm -f "$dir"/*.changes
}

each_engine checkpoints_miss_nothing

map()
{
	nbdinfo --map="$bitmap" "$uri" 2>"$dir/nbdinfo.log" | awk '{ print $1, $2, $3 }' | paste -sd ,
}

# The image has shrunk and grown again: what it did not have at some time counts as changed.
truncate -s 4M "$dir/disk.img"
start_nbdloopd --control "$socket" "$dir/disk.img"
control "$socket" "checkpoint create monday" >"$dir/answer.log" 2>&1 || fail "no checkpoint"
expect_equal "map" "0 4194304 0" "$(map)"
"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"x" * 4096, 1 << 20)' "$uri"
expect_equal "map" "0 1048576 0,1048576 65536 1,1114112 3080192 0" "$(map)"
for size in 3M 4M; do
	truncate -s "$size" "$dir/disk.img"
	control "$socket" resize >"$dir/answer.log" 2>&1 || fail "can't resize"
done
expect_equal "map" "0 1048576 0,1048576 65536 1,1114112 2031616 0,3145728 1048576 1" "$(map)"
control "$socket" "set direct-io=off" >"$dir/answer.log" 2>&1 || fail "can't switch"
expect_equal "map" "0 1048576 0,1048576 65536 1,1114112 2031616 0,3145728 1048576 1" "$(map)"

# Without a file, the next server knows nothing of it, and says so.
stop_server
rm "$dir/disk.img.changes"
start_nbdloopd --control "$socket" --changes=none "$dir/disk.img"
control "$socket" "checkpoint create monday" >"$dir/answer.log" 2>&1 || fail "no checkpoint"
test ! -e "$dir/disk.img.changes" || fail "there is a file in spite of changes=none"
end_process server KILL
start_nbdloopd --control "$socket" "$dir/disk.img"
expect_equal checkpoints "[]" "$(control "$socket" status exports.0.checkpoints)"
nbdinfo --map="$bitmap" "$uri" >"$dir/nbdinfo.log" 2>&1 && fail "a checkpoint of a dead server still answers"
stop_server
