#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 1200
# nbdloop attaches and detaches 200 times in a row, and 20 images at once: each has a device of its own, with its own
# bytes, and in the end no device, process, file or memory is left.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

modprobe nbd
image=$dir/disk.img
truncate -s 1M "$image"

one_after_another() # COUNT
{
	local i
	for ((i = 0; i < $1; i++)); do
		nbdloop attach "$image" >"$dir/device" 2>"$dir/attach.log" || fail "nbdloop attach fails, number $i"
		nbdloop detach "$(<"$dir/device")" >"$dir/detach.log" 2>&1 || fail "nbdloop detach fails, number $i"
	done
}

one_after_another 10
devices=(/sys/block/nbd*)
start=$SECONDS
one_after_another 190
echo "190 times in a row: $((SECONDS - start)) s"
expect_nothing_left
now=(/sys/block/nbd*)
expect_equal "number of devices after all that" ${#devices[@]} ${#now[@]}

# Each at the same time as the others.
start=$SECONDS
for i in {1..20}; do
	head -c 4096 /dev/urandom >"$dir/$i.img"
	truncate -s "$((i * 64))k" "$dir/$i.img"
	(nbdloop attach "$dir/$i.img" >"$dir/$i.device" 2>"$dir/$i.log") &
done
wait
for i in {1..20}; do
	device=$(cat "$dir/$i.device")
	[ -b "$device" ] || fail "no device for image $i"
	expect_equal "size of image $i" $((i * 128)) "$(device_sectors "$device")"
	quietly cmp "$device" "$dir/$i.img"
done
expect_equal "number of different devices" 20 "$(cat "$dir"/*.device | sort -u | wc -l)"
for i in {1..20}; do
	(nbdloop detach "$(cat "$dir/$i.device")" >"$dir/$i.log" 2>&1 || echo "$i" >>"$dir/failed") &
done
wait
[ ! -e "$dir/failed" ] || fail "not detached: $(cat "$dir/failed")"
echo "20 at once: $((SECONDS - start)) s"
expect_nothing_left

# Those who want the same device: one gets it.
for i in {1..8}; do
	(nbdloop attach "$dir/$i.img" /dev/nbd7 >"$dir/$i.log" 2>&1 && echo "$i" >>"$dir/won") &
done
wait
expect_equal "how many got the same device" 1 "$(wc -l <"$dir/won")"
expect_equal "size of what the winner attached" $(($(cat "$dir/won") * 128)) "$(device_sectors /dev/nbd7)"
nbdloop_detach /dev/nbd7
expect_nothing_left
