#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 1200
# nbdloop attaches and detaches 25 times in a row, more often than the driver has devices, and in
# the end no device, process or file is left.
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

one_after_another 5
devices=(/sys/block/nbd*)
[ ${#devices[@]} -lt 20 ] || fail "the driver has ${#devices[@]} devices: more rounds are needed than 20"
start=$SECONDS
one_after_another 20
echo "20 times in a row: $((SECONDS - start)) s"
expect_nothing_left
now=(/sys/block/nbd*)
expect_equal "number of devices after all that" ${#devices[@]} ${#now[@]}
