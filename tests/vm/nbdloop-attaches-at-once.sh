#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop attaches and detaches 20 images at the same time: each has a device of its own, with its
# own bytes, and in the end no device, process or file is left. If several ask for the same device,
# one gets it; if several use --nooverlap, they share one. While the driver is unloaded again and
# again, attaching works or says why it doesn't, and works afterwards.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

modprobe nbd

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

# Several ask for the same device: one gets it.
for i in {1..8}; do
	(nbdloop attach "$dir/$i.img" /dev/nbd7 >"$dir/$i.log" 2>&1 && echo "$i" >>"$dir/won") &
done
wait
expect_equal "how many got the same device" 1 "$(wc -l <"$dir/won")"
expect_equal "size of what the winner attached" $(($(cat "$dir/won") * 128)) "$(device_sectors /dev/nbd7)"
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
