#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop detach refuses a device that is mounted, used as swap space, below another device, or
# open, and names its user; the device continues to work. With --lazy it is detached as soon as
# nobody uses it. Data that was written and not synced is in the image when detach returns, and the
# server has ended, too.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require sgdisk dmsetup mkswap
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
truncate -s 64M "$image"
quietly sgdisk -n 1:2048:65535 -n 2:65536:131000 "$image"
mark_kernel_log
nbdloop_attach "$image"
partition=${device}p1
quietly mkfs.ext4 -q "$partition"

mount_at "$dir/mounted" "$partition"
nbdloop_refuses "$device is in use: .*${device}p1 is mounted on .*/mounted" detach "$device"
nbdloop_refuses "$device is in use" detach --all
quietly touch "$dir/mounted/works-on"
unmount "$dir/mounted"

quietly mkswap "${device}p2"
swapon "${device}p2"
nbdloop_refuses "$device is in use: .*${device}p2 is swap space" detach "$device"
swapoff "${device}p2"

modprobe dm-mod
make_mapped upper "0 1000 linear ${device}p2 0"
nbdloop_refuses "$device is in use: .*mapper/upper is made of ${device}p2" detach "$device"
dmsetup remove upper

exec 8<"$device"
nbdloop_refuses "$device is in use: .*process $$ \\(bash\\) has $device open" detach "$device"
exec 8<&-

# The device is called something else there: in a container, or a chroot.
mkdir "$dir/elsewhere"
quietly mknod "$dir/elsewhere/disk" b "$(stat -c '0x%t' "$partition")" "$(stat -c '0x%T' "$partition")"
exec 8<"$dir/elsewhere/disk"
nbdloop_refuses "$device is in use: .*process $$ \\(bash\\) has $partition open" detach "$device"
exec 8<&-

# The data is not synced.
mount_at "$dir/mounted" "$partition"
mkdir "$dir/mounted/tree"
quietly "$python" "$tree" write "$dir/mounted/tree" 1 60
unmount "$dir/mounted"
head -c 20000000 /dev/urandom >"$dir/data"
dd if="$dir/data" of="${device}p2" bs=1M conv=notrunc status=none
nbdloop_detach "$device"
expect_nothing_left
quietly cmp -n 20000000 "$dir/data" "$image" 0 $((65536 * 512))

# The device goes later.
nbdloop_attach "$image"
mount_at "$dir/mounted" "${device}p1"
quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
quietly nbdloop detach --lazy "$device"
device_is_there "$device" || fail "a mounted device was taken away"
touch "$dir/mounted/still-works"
unmount "$dir/mounted"
wait_until "the device is gone after it was unmounted" device_is_gone "$device"
wait_until "its server and guard have ended" no_process
nbdloop_attach "$image"
quietly e2fsck -f -n "${device}p1"
nbdloop_detach "$device"
nbdloop_attach "$image"
quietly nbdloop detach --lazy "$device"
device_is_gone "$device" || fail "a device that nobody uses is not detached at once by --lazy"
expect_nothing_left
expect_quiet_kernel
