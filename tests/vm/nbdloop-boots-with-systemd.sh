#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: boots 2
# vm: kernel systemd.log_target=kmsg systemd.default_standard_output=null systemd.default_standard_error=tty systemd.show_status=no
# vm: limit 400
# A real systemd attaches the devices of /etc/nbdloop.tab before it mounts, or uses as swap space,
# what /etc/fstab lists. It unmounts and ends the swapping before it detaches the devices, by hand
# and when the machine is shut down. After that, the images contain what was written, and their file
# systems are clean. That includes the file system that nobody could unmount before the very end,
# when systemd kills whatever still runs.
#
#	nbd0  a file system, with nothing in fstab but the device's name
#	nbd1  a partition, by its label, with x-systemd.requires= and _netdev
#	nbd2  swap space
#	nbd3  "noauto": started by hand, and in use when the machine ends
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/systemd.sh"

kept=/run/disk/kept
log=$kept/log
text="written through a device"

# ---- before systemd

make_images()
{
	mkdir "$kept"
	truncate -s 32M "$kept/plain disk.img" "$kept/second.img" "$kept/swap.img" "$kept/busy.img"
	quietly mke2fs -q -t ext4 "$kept/plain disk.img"
	sfdisk -q "$kept/second.img" <<<'start=2048, type=83'
	quietly mke2fs -q -t ext4 -L second -E offset=1048576 "$kept/second.img" 31M
	quietly mkswap "$kept/swap.img"
	quietly mke2fs -q -t ext4 "$kept/busy.img"
}

write_tables()
{
	mkdir -p /mnt/plain /mnt/second /mnt/busy /etc/nbdloop.tab.d /etc/systemd/system/nbdloop@.service.d
	cat >/etc/nbdloop.tab <<-EOT
		# device     image                          options
		nbd0         $kept/plain\\040disk.img
		/dev/nbd2    $kept/swap.img                 swap,sector-size=4096
		nbd9         $kept/nothing.img              nonsense
	EOT
	echo "nbd1 $kept/second.img connections=2" >/etc/nbdloop.tab.d/second.conf
	echo "nbd3 $kept/busy.img noauto" >/etc/nbdloop.tab.d/third.conf
	cat >/etc/fstab <<-EOT
		/dev/nbd0     /mnt/plain   ext4  defaults  0 2
		LABEL=second  /mnt/second  ext4  _netdev,x-systemd.requires=nbdloop@nbd1.service  0 0
		/dev/nbd2     none         swap  sw  0 0
	EOT
	# How each device ended.
	cat >/etc/systemd/system/nbdloop@.service.d/log.conf <<-EOT
		[Service]
		ExecStopPost=/bin/bash -c 'test -e /sys/block/%i/pid && there=attached || there=gone; echo %i \$SERVICE_RESULT \$there >>$log'
	EOT
}

# ---- under systemd

expect_mounted() # MOUNTPOINT DEVICE
{
	expect_equal "what is mounted on $1" "$2" "$(findmnt --noheadings --output SOURCE --mountpoint "$1")"
}

expect_boot()
{
	local device
	expect_mounted /mnt/plain /dev/nbd0
	expect_mounted /mnt/second /dev/nbd1p1
	expect_equal "swap space" /dev/nbd2 "$(swapon --show=NAME --noheadings)"
	for device in nbd0 nbd1 nbd2; do
		expect_active "nbdloop@$device.service" active
	done
	expect_active nbdloop@nbd3.service inactive
	expect_equal "sector size of nbd2" 4096 "$(cat /sys/block/nbd2/queue/logical_block_size)"
	dmesg | grep 'nbdloop-generator: /etc/nbdloop.tab:4: there is no option "nonsense"' >/dev/null ||
		fail "the line that can't be read is not told of"
	# No unit has waited in vain, or was left out because it waited for itself.
	! dmesg | grep -E 'ordering cycle|Timed out waiting|cannot be delayed|Unknown (key|lvalue)|nbdloop@.*(Failed|Warning)' \
		>"$dir/systemd.log" || fail "systemd complains"
}

# The mount goes first, and comes again with the device that it needs.
stop_and_start()
{
	echo "$text 0" >/mnt/plain/file
	quietly systemctl stop nbdloop@nbd0.service
	! mountpoint -q /mnt/plain || fail "still mounted, though the device's unit was stopped"
	device_is_gone /dev/nbd0 || fail "nbd0 is still attached, though its unit was stopped"
	quietly systemctl start mnt-plain.mount
	expect_mounted /mnt/plain /dev/nbd0
	expect_equal "file on nbd0" "$text 0" "$(cat /mnt/plain/file)"
}

# The unit ends when somebody detaches its device. It must not detach what is attached there
# afterwards.
detach_by_hand()
{
	quietly systemctl stop mnt-plain.mount
	quietly nbdloop detach nbd0
	wait_until "nbdloop@nbd0.service has ended" is_in_state nbdloop@nbd0.service inactive
	quietly systemctl start nbdloop@nbd0.service
	quietly nbdloop detach nbd0
	quietly nbdloop attach "$kept/busy.img" nbd0
	quietly systemctl stop nbdloop@nbd0.service
	device_is_there /dev/nbd0 || fail "systemd has detached what isn't of its unit"
	quietly nbdloop detach nbd0
	quietly systemctl start mnt-plain.mount
	expect_mounted /mnt/plain /dev/nbd0
}

# A process of a unit that is not stopped uses a directory of the file system. The file system stays
# mounted until such processes are killed, after all units.
stay_busy()
{
	quietly systemctl start nbdloop@nbd3.service
	quietly mount /dev/nbd3 /mnt/busy
	cat >/run/systemd/system/holder.service <<-EOS
		[Unit]
		DefaultDependencies=no
		[Service]
		WorkingDirectory=/mnt/busy
		ExecStart=/bin/sleep 10000
	EOS
	quietly systemctl daemon-reload
	quietly systemctl start holder.service
}

# ---- after that

expect_clean() # IMAGE OFFSET FILE NUMBER
{
	local image=$dir/file-system.img
	dd if="$1" of="$image" bs=1M skip="$2" conv=sparse status=none
	dumpe2fs -h "$image" >"$dir/dumpe2fs.log" 2>&1 || fail "$1 has no file system"
	grep -qE '^Filesystem state: +clean$' "$dir/dumpe2fs.log" || fail "the file system in $1 is not clean"
	! grep -q needs_recovery "$dir/dumpe2fs.log" || fail "the file system in $1 was not unmounted"
	quietly e2fsck -fn "$image"
	expect_equal "$3 in $1" "$text $4" "$(debugfs -R "cat $3" "$image" 2>/dev/null)"
}

case $VM_BOOT-$VM_STAGE in
1-)
	make_images
	write_tables
	install_nbdloop
	become_systemd
	;;
1-systemd)
	expect_boot
	stop_and_start
	detach_by_hand
	# Such as udev's, which looks at each device that somebody had open for writing.
	! dmesg | grep -E 'I/O error|unable to read partition table' >"$dir/kernel.log" || fail "something has read a detached device"
	stay_busy
	rm -f "$log"
	echo "$text 1" >/mnt/second/file
	echo "$text 2" >/mnt/plain/late
	echo "$text 3" >/mnt/busy/file
	# These are not to be detached at the end of the script.
	detach_left_over() { true; }
	expect_reboot
	;;
*)
	expect_equal "how the devices ended" "nbd0 success gone nbd1 success gone nbd2 success gone nbd3 exit-code attached" \
		"$(sort "$log" | xargs)"
	expect_clean "$kept/plain disk.img" 0 file 0
	expect_clean "$kept/plain disk.img" 0 late 2
	expect_clean "$kept/second.img" 1 file 1
	expect_clean "$kept/busy.img" 0 file 3
	;;
esac
