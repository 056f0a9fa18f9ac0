#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An image that has grown is a larger disk when it is attached again. That holds for the same
# server, told by `resize' on the control socket or not, and for a new server. The file system on it
# grows into the new part and keeps its files. A device that stays attached keeps its size and
# continues to work.
. "$(dirname "$0")/functions.sh"

require mkfs.ext4 resize2fs
tree=$(dirname "$0")/tree.py
image=$dir/disk.img
socket=$dir/control
mib=$((1 << 20))

expect_size() # WHAT MIB
{
	expect_equal "$1" $(($2 * mib)) $(($(device_sectors /dev/nbd0) * 512))
	expect_equal "$1 (blockdev)" $(($2 * mib)) "$(blockdev --getsize64 /dev/nbd0)"
}

# The last sector can be written with direct I/O and is the image's own end; there is none after it.
expect_end() # MIB
{
	"$python" - /dev/nbd0 "$image" $(($1 * mib)) <<-'END' || fail "the end of the device is not that of the image"
		import mmap, os, sys
		device, image, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
		fd = os.open(device, os.O_RDWR | os.O_DIRECT)
		page = mmap.mmap(-1, 4096)
		page.write(os.urandom(4096))
		if os.pwritev(fd, [page], size - 4096) != 4096:
		    sys.exit("the last block was not written")
		os.fsync(fd)
		with open(image, "rb") as file:
		    file.seek(size - 4096)
		    if file.read() != page[:]:
		        sys.exit("the image does not end with what was written at the end of the device")
		try:
		    if os.pwritev(fd, [page], size) > 0:
		        sys.exit("there is something behind the end")
		except OSError:
		    pass
	END
}

# The end that was tested above lies in the last block group, which the file system does not use
# yet.
grow_file_system() # MIB
{
	quietly e2fsck -f -p /dev/nbd0 # without which resize2fs does nothing; it fails if there is something to repair
	quietly resize2fs /dev/nbd0
	mount_at "$dir/mounted" -t ext4 /dev/nbd0
	quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
	expect_equal "size of the file system" $(($1 * mib / 4096)) "$(blocks_of_file_system)"
	# Write into the new part too: the data exceeds the original size.
	quietly dd if=/dev/urandom of="$dir/mounted/fill-$1" bs=1M count=$(($1 / 2)) conv=fsync
	sha256sum "$dir/mounted"/fill-* >"$dir/sums"
	unmount "$dir/mounted"
	quietly e2fsck -f -n /dev/nbd0
}

blocks_of_file_system()
{
	dumpe2fs -h /dev/nbd0 2>/dev/null | sed -n 's/^Block count: *//p'
}

mark_kernel_log
truncate -s 32M "$image"
start_server -- "$image" control="$socket"
attach /dev/nbd0 -C 2
expect_size "size at first" 32
quietly mkfs.ext4 -q -b 4096 /dev/nbd0
mount_at "$dir/mounted" -t ext4 /dev/nbd0
mkdir "$dir/mounted/tree"
quietly "$python" "$tree" write "$dir/mounted/tree" 1 60

# The image grows and the server is told while the device is mounted.
truncate -s 64M "$image"
expect_equal "size answered" $((64 * mib)) "$(control "$socket" resize size)"
expect_size "size of the attached device" 32
quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
touch "$dir/mounted/still-written"
unmount "$dir/mounted"
detach /dev/nbd0
attach /dev/nbd0 -C 2
expect_size "size after resize" 64
expect_end 64
grow_file_system 64
detach /dev/nbd0

# The image grows and the server is not told: it looks at each new connection.
truncate -s 96M "$image"
attach /dev/nbd0
expect_size "size without resize" 96
quietly e2fsck -f -n /dev/nbd0
detach /dev/nbd0
stop_server

# A new server reads the size itself.
truncate -s 128M "$image"
start_server -- "$image"
attach /dev/nbd0 -b 4096 -C 2
expect_size "size with a new server" 128
expect_end 128
grow_file_system 128
detach /dev/nbd0
stop_server
quietly e2fsck -f -n "$image"
modprobe loop
mount_at "$dir/mounted" -t ext4 -o loop,ro "$image"
quietly sha256sum -c "$dir/sums"
unmount "$dir/mounted"
expect_quiet_kernel
