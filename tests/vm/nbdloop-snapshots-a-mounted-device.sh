#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 256M
# A snapshot copies a device with a mounted file system, on which fio writes and verifies. The copy
# is clean, contains what was written before and nothing else, and is the same each time that it is
# read. The other verbs see the device as before, and detaching it ends its snapshots. A file system
# that was frozen for the snapshot is thawed in any case: in time, and when nbdloop is killed.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio nbdcopy debugfs
image=$dir/disk.img
mark_kernel_log
truncate -s 64M "$image"
nbdloop_attach "$image"
quietly mkfs.ext4 -q "$device"
mount_at "$dir/mounted" "$device"
echo before >"$dir/mounted/before"
start_load --directory="$dir/mounted" --size=16M --bsrange=4k-64k --iodepth=4

echo unsynced >"$dir/mounted/unsynced"
uri=$(nbdloop snapshot --freeze "$device" now) || fail "no snapshot is made"
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
expect_equal "the last file in the copy" unsynced "$(debugfs -R 'cat unsynced' "$dir/copy.img" 2>"$dir/debugfs.log")"
expect_equal "a later file in the copy" "" "$(debugfs -R 'cat after' "$dir/copy.img" 2>"$dir/debugfs.log")"

# The device is still that of one image.
expect_equal "image in the list" "$image" "$(nbdloop list -n -O BACK-FILE "$device" | sed 's/ *$//')"
quietly nbdloop set --direct-io=off "$device"
expect_equal "direct I/O" false "$(direct_io_of "$device")"
quietly nbdloop resize "$device"
nbdloop_refuses 'same image|is in use|already' attach --nooverlap "$image" nbd5
quietly nbdloop snapshot --remove "$device" now
must_fail nbdinfo --size "$uri"

# nbdloop backup makes its own snapshot, and the next one copies only what has changed since.
quietly nbdloop backup --freeze "$device" "$dir/night.img"
quietly e2fsck -f -n "$dir/night.img"
echo changed >"$dir/mounted/after"
nbdloop backup --freeze --incremental --verify --json "$device" "$dir/night.img" >"$dir/night.json" || fail "the increment fails"
quietly e2fsck -f -n "$dir/night.img"
expect_equal "a file in the increment" changed "$(debugfs -R 'cat after' "$dir/night.img" 2>"$dir/debugfs.log")"
expect_equal "exports" 1 "$(control "$(control_of "$device")" status | grep -o '"engine":' | wc -l)"
expect_load

# The server can't make its scratch file on a frozen file system: this waits for itself.
nbdloop_refuses 'thawed after 10 seconds' snapshot --freeze --scratch="$dir/mounted" "$device" late
expect_equal "exports" 1 "$(control "$(control_of "$device")" status | grep -o '"engine":' | wc -l)"
is_frozen()
{
	child=$(pgrep -P "$pid") && grep -q poll "/proc/$child/stack"
}
spawn snapshot nbdloop snapshot --freeze --scratch="$dir/mounted" "$device" late
wait_until "the file system is frozen" is_frozen
end_process snapshot KILL
quietly touch "$dir/mounted/thawed"
wait_until "the child ends" process_gone "$child"
has_snapshot()
{
	nbdloop snapshot --remove "$device" late 2>"$dir/remove.log"
}
wait_until "the server goes on" has_snapshot
uri=$(nbdloop snapshot "$device" last) || fail "no second snapshot is made"
quietly nbdinfo --size "$uri"

end_load
unmount "$dir/mounted"
nbdloop_detach "$device"
expect_nothing_left
must_fail nbdinfo --size "$uri"
quietly e2fsck -f -n "$image"
expect_quiet_kernel
