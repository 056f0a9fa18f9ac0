#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes to a device, and while a file system on it is written to, nbdloop detach refuses,
# and there is neither an error nor a hang. With --lazy the device goes when the last writer does;
# all written data, through the page cache, too, is in the image then. Concurrent detaches of one
# device don't disturb each other. When nbd-client detaches the device, the server and the guard
# end, too.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
truncate -s 64M "$image"

start_fio() # NAME FILE SECONDS FIO-OPTION...
{
	local name=$1 file=$2 seconds=$3
	shift 3
	spawn "$name" fio --name="$name" --filename="$file" --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 \
		--verify=crc32c --verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --time_based --runtime="$seconds" "$@"
}

end_fio() # NAME
{
	poll_for 60 process_gone "${process_pids[$1]}" || fail "fio does not end"
	end_process "$1"
	expect_equal "fio's status" 0 "$end_status"
}

# The kernel has counted writes of the device.
is_written()
{
	local fields
	read -ra fields <"/sys/block/${device#/dev/}/stat"
	[ "${fields[4]}" -gt 100 ]
}

mark_kernel_log
nbdloop_attach "$image"
start_fio load "$device" 30 --size=48M --direct=1
wait_until "fio writes" is_written
# fio closes and reopens the device after each round: in between nobody else would have it open.
exec 9<"$device"
for i in 1 2; do
	nbdloop_refuses "$device is in use: .* has $device open" detach "$device"
done
! process_gone "${process_pids[load]}" || fail "fio has ended too soon"
# From now on detach only waits for fio.
quietly nbdloop detach --lazy "$device"
device_is_there "$device" || fail "a device that is written to was taken away"
end_fio load
device_is_there "$device" || fail "a device that somebody has open was taken away"
exec 9<&-
wait_until "the device is gone after fio" device_is_gone "$device"
wait_until "its server and guard have ended" no_process
expect_nothing_left

# Write to a file system, through the page cache.
nbdloop_attach "$image"
quietly mkfs.ext4 -q "$device"
mount_at "$dir/mounted" "$device"
start_fio buffered "$dir/mounted/file" 30 --size=16M --direct=0
for i in 1 2; do
	nbdloop_refuses "$device is in use: .*is mounted on" detach "$device"
done
mkdir "$dir/mounted/tree"
quietly "$python" "$tree" write "$dir/mounted/tree" 1 60
end_fio buffered
unmount "$dir/mounted"
# Several detaches at once: one succeeds, and nothing is left whichever it is.
for i in 1 2 3 4; do
	(nbdloop detach "$device" >"$dir/detach.$i" 2>&1 && echo "$i" >>"$dir/won") &
done
wait
[ -s "$dir/won" ] || fail "none of several has detached it: $(cat "$dir"/detach.*)"
device_is_gone "$device" || fail "$device is still there"
expect_nothing_left
nbdloop_attach "$image"
quietly e2fsck -f -n "$device"
mount_at "$dir/mounted" "$device"
quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
unmount "$dir/mounted"

# The data is only in the page cache, and its writer has just gone.
head -c 32000000 /dev/urandom >"$dir/data"
dd if="$dir/data" of="$device" bs=1M conv=notrunc status=none
nbdloop_detach "$device"
quietly cmp -n 32000000 "$dir/data" "$image"
expect_nothing_left
expect_quiet_kernel

# Another program detaches the device while it is read.
read_until_error()
{
	while dd if="$device" of=/dev/null bs=64k iflag=direct status=none; do :; done
}
nbdloop_attach "$image"
spawn reader read_until_error
quietly nbd-client -d "$device"
wait_until "the reader has seen the end" process_gone "${process_pids[reader]}"
end_process reader
wait_until "the server and the guard have ended" no_process
wait_until "the device is gone" device_is_gone "$device"
expect_nothing_left
