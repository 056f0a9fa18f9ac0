#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 64M
# nbdloop passes, beside losetup, what util-linux and blktests test of loop devices: an image that
# is a block device, an image whose drive has sectors of 4096 bytes, a read-only image, and an image
# on tmpfs. Partitions that were made by hand, and those of the previous image, disappear.
# Partitions appear once, without coming and going while the device is attached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require blockdev sgdisk blkdiscard
modprobe loop
modprobe nbd

mark_kernel_log

# The image is a block device.
drive=$(drive_device 1)
head -c 8M /dev/urandom | dd of="$drive" bs=1M status=none conv=fsync
for options in "--direct-io=off" "-r --direct-io=on" "-o 1M --sizelimit 4M --direct-io=off" "-o 8k -b 4096 --direct-io=on" "-f"; do
	# shellcheck disable=SC2086 # several words
	like_losetup "$drive" $options
done
attach_loop "$drive" -o 1M --sizelimit 1M
nbdloop_refuses "$loop_device is made of it" attach -o 1M --sizelimit 1M "$drive"
nbdloop_refuses "already, to $loop_device; " attach -L -o 1M --sizelimit 1M "$drive"
nbdloop_attach --force -o 1M --sizelimit 1M "$drive"
expect_equal "losetup's device, used again" "$loop_device" "$(losetup --find --show --nooverlap -o 1M --sizelimit 1M "$drive")"
expect_equal "nbdloop's device, used again" "$device" "$(nbdloop attach --nooverlap --force -o 1M --sizelimit 1M "$drive")"
! losetup --find --nooverlap -o 1536k "$drive" >"$dir/losetup.log" 2>&1 || fail "losetup accepts an overlap"
nbdloop_refuses 'overlaps' attach --nooverlap --force -o 1536k "$drive"
detach_loop "$loop_device"
nbdloop_detach "$device"

# The drive has sectors of 4096 bytes.
modprobe sd_mod
modprobe scsi_debug sector_size=4096 dev_size_mb=16
four_k=
find_four_k()
{
	four_k=$(grep -l scsi_debug /sys/block/sd*/device/model 2>/dev/null | head -n 1 | cut -d / -f 4)
	[ -n "$four_k" ] && [ -b "/dev/$four_k" ]
}
wait_until "the drive of scsi_debug is there" find_four_k
expect_equal "its sector size" 4096 "$(blockdev --getss "/dev/$four_k")"
for options in "-b 4096 --direct-io=on" "-b 512 --direct-io=off" "-b 4096 -r --direct-io=on -o 8k"; do
	# shellcheck disable=SC2086 # several words
	like_losetup "/dev/$four_k" $options
done
# Without a given sector size, the device gets one that allows direct I/O.
nbdloop_attach --direct-io=on "/dev/$four_k"
expect_equal "sector size and direct I/O on a drive of 4096-byte sectors" "4096 true" \
	"$(blockdev --getss "$device") $(direct_io_of "$device")"
head -c 100000 /dev/urandom >"$dir/data"
dd if="$dir/data" of="$device" bs=1000 seek=7 conv=fsync,notrunc status=none
quietly cmp -n 100000 "$dir/data" "$device" 0 7000
nbdloop_detach "$device"
quietly cmp -n 100000 "$dir/data" "/dev/$four_k" 0 7000

# A device of a read-only image is read-only by default.
mkdir "$dir/readonly"
mount -t tmpfs none "$dir/readonly"
on_exit umount -l "$dir/readonly"
head -c 2M /dev/urandom >"$dir/readonly/disk.img"
mount -o remount,ro "$dir/readonly"
like_losetup "$dir/readonly/disk.img" --direct-io=off
nbdloop_attach "$dir/readonly/disk.img"
expect_equal "read-only" 1 "$(blockdev --getro "$device")"
nbdloop_detach "$device"

# tmpfs, whatever its fallocate() supports.
truncate -s 32M /dev/shm/disk.img
nbdloop_attach /dev/shm/disk.img
quietly mkfs.ext4 -q "$device"
quietly blkdiscard -f -o 4M -l 8M "$device"
quietly blkdiscard -f -z -o 16M -l 8M "$device"
nbdloop_detach "$device"
rm /dev/shm/disk.img

# Partitions that were made in the kernel only, and those of the previous image, disappear with the
# device.
truncate -s 32M "$dir/plain.img" "$dir/table.img"
quietly sgdisk -n 1:2048:20479 -n 2:20480:40959 "$dir/table.img"
nbdloop_attach "$dir/plain.img" nbd5
quietly addpart /dev/nbd5 1 2048 4096
expect_equal "sectors of a partition made by hand" 4096 "$(cat /sys/block/nbd5/nbd5p1/size)"
nbdloop_detach /dev/nbd5
[ ! -e /sys/block/nbd5/nbd5p1 ] || fail "a partition that was made by hand is left"
nbdloop_attach "$dir/table.img" nbd5
expect_equal "sectors of the image's partition" 18432 "$(cat /sys/block/nbd5/nbd5p1/size)"
quietly mkfs.ext4 -q /dev/nbd5p2
nbdloop_detach /dev/nbd5
spawn uevents "$python" "$(dirname "$0")/uevents.py"
wait_until "events are recorded" grep -q listening "$dir/uevents.log"
nbdloop_attach "$dir/table.img" nbd5
wait_until "the partition was announced" grep -q 'nbd5p2' "$dir/uevents.log"
sleep 1
end_process uevents TERM
expect_equal "what became of the partitions when it was attached" "add nbd5p1 add nbd5p2" \
	"$(grep nbd5p "$dir/uevents.log" | xargs)"
nbdloop_detach /dev/nbd5
nbdloop_attach "$dir/plain.img" nbd5
partitions=(/sys/block/nbd5/nbd5p*)
[ ! -e "${partitions[0]}" ] || fail "partitions of the image before: ${partitions[*]}"
nbdloop_detach /dev/nbd5
expect_nothing_left
expect_quiet_kernel
