#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes to a device, or to a file system on it, nbdloop detach refuses, and there is
# neither an error nor a hang. With --lazy, the device ends with its last writer. The image then has
# all written data, also what was in the page cache. Concurrent detaches of one device do not
# disturb each other. When nbd-client detaches the device, the server and the guard end, too.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
truncate -s 64M "$image"

mark_kernel_log
nbdloop_attach "$image"
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
# fio closes and reopens the device after each round: in between nobody else would have it open.
exec 9<"$device"
for i in 1 2; do
	nbdloop_refuses "$device is in use: .* has $device open" detach "$device"
done
expect_load
# From now on detach only waits for fio.
quietly nbdloop detach --lazy "$device"
device_is_there "$device" || fail "a device that is written to was taken away"
end_load
device_is_there "$device" || fail "a device that somebody has open was taken away"
exec 9<&-
wait_until "the device is gone after fio" device_is_gone "$device"
wait_until "its server and guard have ended" no_process
expect_nothing_left

# Write to a file system, through the page cache.
nbdloop_attach "$image"
quietly mkfs.ext4 -q "$device"
mount_at "$dir/mounted" "$device"
start_load --filename="$dir/mounted/file" --size=16M --bsrange=4k-64k --iodepth=8 --direct=0 --fsync=16
for i in 1 2; do
	nbdloop_refuses "$device is in use: .*is mounted on" detach "$device"
done
mkdir "$dir/mounted/tree"
quietly "$python" "$tree" write "$dir/mounted/tree" 1 60
end_load
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
read_until_end()
{
	# A reader that opens the device after its end reads 0 bytes, which is no error.
	while device_is_there "$device" &&
	      dd if="$device" of=/dev/null bs=64k iflag=direct status=none; do :; done
}
nbdloop_attach "$image"
spawn reader read_until_end
quietly nbd-client -d "$device"
wait_until "the reader has seen the end" process_gone "${process_pids[reader]}"
end_process reader
wait_until "the server and the guard have ended" no_process
wait_until "the device is gone" device_is_gone "$device"
expect_nothing_left
