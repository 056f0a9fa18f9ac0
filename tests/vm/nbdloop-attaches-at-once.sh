#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 900
# nbdloop attaches many images at the same time, and detaches them: each has a device of its own,
# with its own bytes, and in the end no device, process or file is left. If several ask for the same
# device, one gets it; if several use --nooverlap, they share one. While the driver is unloaded
# again and again, attaching works or says why it doesn't, and works afterwards.
#
# NBDLOOP_DEVICES=256 attaches so many instead of 32.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

count=${NBDLOOP_DEVICES:-32}
modprobe nbd nbds_max=$count
for ((i = 1; i <= count; i++)); do
	echo "image $i" >"$dir/$i.img"
	sizes+=("$dir/$i.img")
done
truncate -s 1M "${sizes[@]}"

start=$SECONDS
for ((i = 1; i <= count; i++)); do
	(exec nbdloop attach "$dir/$i.img" >"$dir/$i.device" 2>"$dir/$i.log") &
done
wait
echo "$count attached at once: $((SECONDS - start)) s; $(grep MemAvailable /proc/meminfo)"
for ((i = 1; i <= count; i++)); do
	read -r device <"$dir/$i.device" || fail "no device for image $i: $(cat "$dir/$i.log")"
	read -r size <"/sys/block/${device#/dev/}/size"
	expect_equal "size of image $i" 2048 "$size"
	read -r line <"$device"
	expect_equal "first line of image $i" "image $i" "$line"
	echo "device $i" >"$device"
done
expect_equal "number of different devices" "$count" "$(cat "$dir"/*.device | sort -u | wc -l)"
expect_equal "number of listed devices" "$count" "$(nbdloop list --noheadings | wc -l)"
start=$SECONDS
for ((i = 1; i <= count; i++)); do
	read -r device <"$dir/$i.device"
	(nbdloop detach "$device" >"$dir/$i.log" 2>&1 || echo "$i" >>"$dir/failed") &
done
wait
[ ! -e "$dir/failed" ] || fail "not detached: $(cat "$dir/failed")"
echo "$count detached at once: $((SECONDS - start)) s"
for ((i = 1; i <= count; i++)); do
	read -r line <"$dir/$i.img"
	expect_equal "what was written to the device of image $i" "device $i" "$line"
done
expect_nothing_left

# Several ask for the same device: one gets it.
for i in {1..8}; do
	(nbdloop attach "$dir/$i.img" /dev/nbd7 >"$dir/$i.log" 2>&1 && echo "$i" >>"$dir/won") &
done
wait
expect_equal "how many got the same device" 1 "$(wc -l <"$dir/won")"
read -r line </dev/nbd7
expect_equal "what the winner attached" "device $(cat "$dir/won")" "$line"
nbdloop_detach /dev/nbd7
expect_nothing_left

# Several attach the same image with --nooverlap: all get the same device.
for i in {1..5}; do
	(nbdloop attach --nooverlap "$dir/1.img" >"$dir/$i.device" 2>"$dir/$i.log" || echo "$i" >>"$dir/failed") &
done
wait
[ ! -e "$dir/failed" ] || fail "not attached with --nooverlap: $(cat "$dir/failed")"
expect_equal "devices of those who use what is there" 1 "$(cat "$dir"/[1-5].device | sort -u | wc -l)"
nbdloop_detach "$(cat "$dir/1.device")"
expect_nothing_left

# The driver is unloaded and loaded.
unload_again_and_again()
{
	while [ ! -e "$dir/stop" ]; do
		modprobe -r nbd 2>/dev/null || true
	done
}
spawn unload unload_again_and_again
worked=0
for i in {1..8}; do
	if nbdloop attach "$dir/1.img" >"$dir/device" 2>"$dir/attach.log"; then
		worked=$((worked + 1))
		nbdloop_detach "$(<"$dir/device")"
	else
		grep -qE '^nbdloop: .*nbd driver' "$dir/attach.log" || fail "it fails without the reason"
	fi
done
touch "$dir/stop"
wait_until "nobody unloads the driver any more" process_gone "${process_pids[unload]}"
end_process unload
echo "attached $worked of 8 times while the driver was being unloaded"
nbdloop_attach "$dir/1.img"
quietly cmp "$device" "$dir/1.img"
nbdloop_detach "$device"
expect_nothing_left
