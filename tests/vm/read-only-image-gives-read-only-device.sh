#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that may only read gives a device that the kernel treats as read-only (nbdkit -r; a file
# that its user, or nobody, may write). Nothing can be written to it, in whatever way. Its file
# system can be mounted read-only, and neither the image's bytes nor its time stamp changes.
. "$(dirname "$0")/functions.sh"

require setpriv chattr
tree=$(dirname "$0")/tree.py
image=$dir/disk.img

mkdir "$dir/tree"
"$python" "$tree" write "$dir/tree" 1 60
quietly mke2fs -q -t ext4 -d "$dir/tree" "$image" 48M
# The file system has been used: it has a journal, and the time of the last mount.
modprobe loop
mount_at "$dir/mounted" -t ext4 -o loop "$image"
touch "$dir/mounted/used"
rm "$dir/mounted/used"
unmount "$dir/mounted"

# Try every way in which bytes get to a disk.
refuses() # DEVICE
{
	"$python" - "$1" <<-'END' || fail "$1 can be written"
		import fcntl, mmap, os, sys
		device = sys.argv[1]
		BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F


		def refused(what, action):
		    try:
		        fd = os.open(device, action.flags)
		    except OSError:
		        return  # not even opened
		    try:
		        action(fd)
		        os.fsync(fd)
		    except OSError:
		        return
		    finally:
		        os.close(fd)
		    sys.exit(f"{what} works")


		def way(flags, do):
		    do.flags = flags
		    return do


		page = mmap.mmap(-1, 4096)
		page.write(b"x" * 4096)
		span = (0).to_bytes(8, "little") + (1 << 20).to_bytes(8, "little")
		refused("a write", way(os.O_RDWR, lambda fd: os.pwrite(fd, page, 8192)))
		refused("a direct write", way(os.O_RDWR | os.O_DIRECT, lambda fd: os.pwritev(fd, [page], 8192)))
		refused("discarding", way(os.O_RDWR, lambda fd: fcntl.ioctl(fd, BLKDISCARD, span)))
		refused("zeroing", way(os.O_RDWR, lambda fd: fcntl.ioctl(fd, BLKZEROOUT, span)))
		refused("a shared mapping", way(os.O_RDWR, lambda fd: mmap.mmap(fd, 4096).__setitem__(0, 120)))
	END
}

is_read_only() # WHAT
{
	local before
	before=$(sha256sum "$image") && before+=$(stat -c ' %y %z' "$image")
	mark_kernel_log
	attach /dev/nbd0 -b 512 -C 2
	expect_equal "$1: /sys/block/nbd0/ro" 1 "$(cat /sys/block/nbd0/ro)"
	expect_equal "$1: blockdev --getro" 1 "$(blockdev --getro /dev/nbd0)"
	refuses /dev/nbd0
	must_fail mkfs.ext4 -q -F /dev/nbd0
	must_fail mount -t ext4 -w /dev/nbd0 "$dir/mounted"
	mount_at "$dir/mounted" -t ext4 -o ro /dev/nbd0
	quietly "$python" "$tree" check "$dir/mounted" 1 60
	must_fail touch "$dir/mounted/new"
	must_fail mount -o remount,rw "$dir/mounted"
	unmount "$dir/mounted"
	detach /dev/nbd0
	stop_server
	expect_equal "$1: the image" "$before" "$(sha256sum "$image")$(stat -c ' %y %z' "$image")"
	# To a read-only device, the kernel sends no request that the server would have to refuse.
	reject_log 'error'
	expect_quiet_kernel
	echo "$1: $SECONDS s"
}

start_server -r -- "$image"
is_read_only "nbdkit -r"

chattr +i "$image" || fail "the image can't be made immutable"
on_exit chattr -i "$image"
start_server -- "$image"
expect_log 'disk\.img: .*direct I/O on.*read-only \(it is immutable; .*\)$'
attach /dev/nbd0
expect_equal "an immutable image: /sys/block/nbd0/ro" 1 "$(cat /sys/block/nbd0/ro)"
refuses /dev/nbd0
detach /dev/nbd0
stop_server
chattr -i "$image"

use_unprivileged_server
chown root:root "$image"
chmod 444 "$image"
server_prefix=("${as_nobody[@]}")
start_server -- "$image"
expect_log 'disk\.img: .*direct I/O on.*read-only \(.+\)$'
is_read_only "an image that its server may not write"

# The same image is writable again when nothing forbids it.
chmod 666 "$image"
start_server -- "$image"
attach /dev/nbd0
expect_equal "/sys/block/nbd0/ro" 0 "$(cat /sys/block/nbd0/ro)"
mount_at "$dir/mounted" -t ext4 /dev/nbd0
touch "$dir/mounted/new"
unmount "$dir/mounted"
detach /dev/nbd0
stop_server
