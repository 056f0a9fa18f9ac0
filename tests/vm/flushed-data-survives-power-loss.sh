#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 512M
# vm: drive 4G
# vm: drive 512M
# vm: drive 512M
# When fsync(), fdatasync() or an O_DSYNC write returns in a machine that has an image as its disk,
# the data survives a power failure of the image's own disk: flushes and FUA writes of the kernel's
# client reach that disk.
#
# The image's file system is on a dm-log-writes device, which logs the data that is certainly on the
# disk. A write counts when the next flush has ended, or by its own FUA. After each of those calls a
# mark is written to the log. power_loss.py then reconstructs the disk at each mark and at flushes
# in between, and looks for the marked data.
#
# Some of that data is lost if a server answers flushes without carrying them out, ignores FUA, or
# keeps data in the page cache. The same happens if it forgets that a sparse image also has
# metadata.
. "$(dirname "$0")/functions.sh"

disk=$(drive_device 1) writes=$(drive_device 2) target=$(drive_device 3) cow=$(drive_device 4)
rounds=2

modprobe -a dm-log-writes dm-snapshot loop || fail "a module is missing"
make_mapped logged "0 $(blockdev --getsz $disk) log-writes $disk $writes"
# Lazy initialization is off, because it would go on in the background for long.
quietly mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/logged
# A commit of the file system's journal flushes the disk for everybody: commits must be rare, or
# they do the server's work.
mkdir "$dir/disk" "$dir/client"
mount -o commit=3000 /dev/mapper/logged "$dir/disk"

write_and_mark() # DIRECT-IO [PAGE-CACHE]
{
	local name=$engine-$1-${2:-auto}
	# The image is either sparse, so that much is allocated, or written before, so that nothing
	# makes the file system flush by itself.
	truncate -s 40M "$dir/disk/$name.img"
	case $name in
	aio-* | threads-off-auto)
		dd if=/dev/urandom of="$dir/disk/$name.img" bs=1M count=40 conv=notrunc,fsync status=none
		;;
	esac
	start_server -- "$dir/disk/$name.img" engine="$engine" direct-io="$1" page-cache="${2:-auto}"
	attach /dev/nbd0 -b 4096
	# The last MiB is for writes to the device itself.
	quietly mke2fs -q -t ext4 -b 4096 /dev/nbd0 36M
	mount /dev/nbd0 "$dir/client"
	quietly "$python" "$VM_SOURCE/power_loss.py" write "$dir/$name.json" "$name" "$dir/client" /dev/nbd0 logged $rounds
	umount "$dir/client"
	detach /dev/nbd0
	stop_server
}

each_engine write_and_mark on
# What is in the page cache is written by the flush, and AIO's has been tried above.
for engine in io_uring threads; do
	write_and_mark off
done
# These kernels have no RWF_DONTCACHE; the sweeps that start write-backs must not count as flushes.
engine=threads
write_and_mark off drop
expect_log 'page cache drop \(without RWF_DONTCACHE: Linux 6\.[0-9]+ does not know it\)'

umount "$dir/disk"
quietly dmsetup remove logged
quietly "$python" "$VM_SOURCE/power_loss.py" check "$dir/cut" $writes $target $cow "$dir"/*.json
cat "$dir/command.log"
