#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 256M
# A device with a mounted file system, on which fio writes and verifies, is copied by a snapshot:
# the copy is clean, has what was written before and nothing else, and is the same each time that it
# is read. The other verbs know the device as before, and detaching it ends its snapshots.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio fsfreeze nbdcopy debugfs
image=$dir/disk.img
mark_kernel_log
truncate -s 64M "$image"
nbdloop_attach "$image"
quietly mkfs.ext4 -q "$device"
mount_at "$dir/mounted" "$device"
echo before >"$dir/mounted/before"
start_load --directory="$dir/mounted" --size=16M --bsrange=4k-64k --iodepth=4

fsfreeze -f "$dir/mounted"
uri=$(nbdloop snapshot "$device" now) || fail "no snapshot is made"
fsfreeze -u "$dir/mounted"
echo after >"$dir/mounted/before"
echo after >"$dir/mounted/after"
sync -f "$dir/mounted"
expect_load
quietly nbdcopy "$uri" "$dir/copy.img"
expect_load
quietly nbdcopy "$uri" "$dir/again.img"
quietly cmp "$dir/copy.img" "$dir/again.img"
quietly e2fsck -f -n "$dir/copy.img"
expect_equal "a file in the copy" before "$(debugfs -R 'cat before' "$dir/copy.img" 2>"$dir/debugfs.log")"
expect_equal "a later file in the copy" "" "$(debugfs -R 'cat after' "$dir/copy.img" 2>"$dir/debugfs.log")"

# The device is still that of one image.
expect_equal "image in the list" "$image" "$(nbdloop list -n -O BACK-FILE "$device" | sed 's/ *$//')"
quietly nbdloop set --direct-io=off "$device"
expect_equal "direct I/O" false "$(direct_io_of "$device")"
quietly nbdloop resize "$device"
nbdloop_refuses 'same image|is in use|already' attach --nooverlap "$image" nbd5
quietly nbdloop snapshot --remove "$device" now
must_fail nbdinfo --size "$uri"
uri=$(nbdloop snapshot "$device" last) || fail "no second snapshot is made"
quietly nbdinfo --size "$uri"

end_load
unmount "$dir/mounted"
nbdloop_detach "$device"
expect_nothing_left
must_fail nbdinfo --size "$uri"
quietly e2fsck -f -n "$image"
expect_quiet_kernel
