#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An image grows, and `nbdloop resize' makes the attached device grow with it: ext4 and xfs grow on
# the device while they are mounted and fio writes and verifies on them, and the new part is the
# image's.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio resize2fs xfs_growfs
image=$dir/disk.img

cat >"$dir/large.py" <<'END'
# Makes a file of so many MiB with all its blocks, and writes each eighth MiB; or compares them.
import os, sys
how, name, mib = sys.argv[1:]
with open(name, how) as file:
    if how == "wb":
        os.posix_fallocate(file.fileno(), 0, int(mib) << 20)
    for i in range(0, int(mib), 8):
        data = i.to_bytes(4, "big") * (1 << 18)
        file.seek(i << 20)
        if how == "wb":
            file.write(data)
        elif file.read(len(data)) != data:
            sys.exit(f"other data in MiB {i}")
END

grows() # FILE-SYSTEM FROM-MIB TO-MIB
{
	local type=$1 from=$2 to=$3 before after
	mark_kernel_log
	rm -f "$image"
	truncate -s "${from}M" "$image"
	nbdloop_attach "$image"
	quietly "mkfs.$type" -q "$device"
	mount_at "$dir/mounted" "$device"
	start_load --directory="$dir/mounted" --size=16M --bsrange=4k-64k --iodepth=4
	truncate -s "${to}M" "$image"
	expect_equal "size before resize" $((from << 20)) "$(blockdev --getsize64 "$device")"
	quietly nbdloop resize "$device"
	expect_equal "size after resize" $((to << 20)) "$(blockdev --getsize64 "$device")"
	before=$(stat -f -c %b "$dir/mounted")
	if [ "$type" = xfs ]; then quietly xfs_growfs "$dir/mounted"; else quietly resize2fs "$device"; fi
	after=$(stat -f -c %b "$dir/mounted")
	# Sizes are in blocks of 4096 bytes; the file system takes a part for itself.
	[ $((after - before)) -gt $(((to - from) * 256 * 8 / 10)) ] || fail "$type: the file system grew from $before to $after blocks"
	expect_load
	# The data is more than there was room for before.
	quietly "$python" "$dir/large.py" wb "$dir/mounted/large" $((to * 3 / 4))
	end_load
	unmount "$dir/mounted"
	mount_at "$dir/mounted" "$device"
	quietly "$python" "$dir/large.py" rb "$dir/mounted/large" $((to * 3 / 4))
	unmount "$dir/mounted"
	# An unchanged size is no error.
	quietly nbdloop resize "$device"
	nbdloop_detach "$device"
	expect_nothing_left
	expect_quiet_kernel
	echo "$type: $SECONDS s"
}

grows ext4 64 160
quietly e2fsck -f -n "$image"
grows xfs 320 400

# The image shrinks, which losetup supports, too, and grows back.
nbdloop_attach -o 1M --sizelimit 8M "$image"
truncate -s 5M "$image"
quietly nbdloop resize "$device"
expect_equal "size of a smaller image's rest" $((4 << 20)) "$(blockdev --getsize64 "$device")"
truncate -s 20M "$image"
quietly nbdloop resize "$device"
expect_equal "size with a limit" $((8 << 20)) "$(blockdev --getsize64 "$device")"
nbdloop_detach "$device"
nbdloop_refuses 'is not attached' resize "$device"
