#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu time namespaces
# vm: drive 512M
# vm: drive 4G
# vm: drive 512M
# vm: drive 512M
# vm: servers nbdloopd
# vm: limit 1200
# After a power cut, the checkpoints of an image report each block that differs from their moment,
# at whatever flush the power failed. They report nothing in regions that nobody wrote to.
#
# The file system of the image and its record is on a dm-log-writes device, as in
# flushed-data-survives-power-loss. From its log, changed_blocks.py makes what was on the disk at
# each moment. It asks an nbdloopd there, as if the machine had started again.
. "$(dirname "$0")/functions.sh"

[ "$VM_SERVER" = nbdloopd ] || skip "the plugin has no checkpoints"
require_nbdloop
disk=$(drive_device 1) writes=$(drive_device 2) target=$(drive_device 3) cow=$(drive_device 4)
modprobe -a dm-log-writes dm-snapshot || fail "a module is missing"
make_mapped logged "0 $(blockdev --getsz $disk) log-writes $disk $writes"
quietly mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/logged
mkdir "$dir/disk"
# As in flushed-data-survives-power-loss: a commit would do the server's work.
mount -o commit=3000 /dev/mapper/logged "$dir/disk"
truncate -s 96M "$dir/disk/disk.img"
sync -f "$dir/disk"

start_nbdloopd --control "$dir/control" "$dir/disk/disk.img"
PYTHONPATH=$VM_SOURCE/../lib quietly "$python" "$VM_SOURCE/changed_blocks.py" write "$dir/facts.json" "$sock" "$dir/control" logged
stop_server
umount "$dir/disk"
quietly dmsetup remove logged

# Servers that are started now see another run of the kernel: with another id, and a clock that
# began after the last write.
sleep 2
cat /proc/sys/kernel/random/uuid >"$dir/boot_id"
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
on_exit umount /proc/sys/kernel/random/boot_id
PYTHONPATH=$VM_SOURCE/../lib quietly unshare --time --fork --boottime="-$(cut -d. -f1 /proc/uptime)" \
	"$python" "$VM_SOURCE/changed_blocks.py" check "$dir/facts.json" "$dir/cut" $writes $target $cow
cat "$dir/command.log"
