#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop attach --temporary gives a file system that can be written to, and its image stays as it
# is. If the server is killed, the device ends with errors, and none begins with an empty clone
# under the mounted file system, nor does replace-server or adopt. A layer is attached as what it
# is.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
truncate -s 64M "$image"
quietly mkfs.ext4 -q "$image"
cp --sparse=always "$image" "$dir/before.img"
mkdir "$dir/mnt"

unchanged()
{
	quietly cmp "$image" "$dir/before.img"
}

nbdloop_attach --temporary "$image"
nbdloop list -n -O BACK-FILE "$device" >"$dir/list"
grep -q "temporary clone of $image" "$dir/list" || fail "the list shows $(cat "$dir/list")"
nbdloop status "$device" >"$dir/status"
grep -q "temporary clone of $image" "$dir/status" || fail "the status shows $(cat "$dir/status")"
mount "$device" "$dir/mnt"
cp -r /usr/include/linux/netfilter "$dir/mnt/"
sync
echo 3 >/proc/sys/vm/drop_caches
quietly diff -r /usr/include/linux/netfilter "$dir/mnt/netfilter"
umount "$dir/mnt"
nbdloop_refuses 'keeps its server: its temporary clone would be lost with it' replace-server "$device"
nbdloop_refuses 'no exclusive lock' attach "$image"
mount "$device" "$dir/mnt"
quietly diff -r /usr/include/linux/netfilter "$dir/mnt/netfilter"
umount "$dir/mnt"
nbdloop_detach "$device"
expect_nothing_left
unchanged

# Each has its own.
nbdloop_attach --temporary --scratch="$dir/mnt" "$image"
first=$device
nbdloop_attach --temporary "$image"
dd if=/dev/zero of="$first" bs=1M count=1 oflag=direct status=none
quietly cmp "$device" "$image"
nbdloop_detach "$first" "$device"
unchanged

# The server of a mounted device is killed.
ended()
{
	! dd if="$device" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null
}

log_tells()
{
	grep -q "${device#/dev/}: what was written to the temporary clone of $image is lost with its server" "$dir/syslog.log"
}

no_device()
{
	[ ! -e "/sys/block/${device#/dev/}/pid" ]
}

spawn syslog busybox syslogd -n -O "$dir/syslog.log"
wait_until "the system log is there" test -S /dev/log

for server in nbdloopd nbdkit; do
	command -v "$server" >/dev/null || continue
	nbdloop_attach --temporary --server="$server" "$image"
	mount "$device" "$dir/mnt"
	echo data >"$dir/mnt/file"
	sync "$dir/mnt/file"
	kill -KILL "$(server_pid "$device")"
	wait_until "$device of $server ends" ended
	wait_until "the log tells why" log_tells
	must_fail dd if=/dev/zero of="$dir/mnt/file" bs=4k count=1 oflag=direct
	umount "$dir/mnt"
	wait_until "the device is gone" no_device
	wait_until "nothing runs" no_process
	: >"$dir/syslog.log"
	expect_nothing_left
	unchanged
done

# The guard is killed.
nbdloop_attach --temporary "$image"
dd if=/dev/urandom of="$dir/data" bs=64k count=1 status=none
dd if="$dir/data" of="$device" bs=64k oflag=direct conv=notrunc status=none
guard=$(nbdloop list -n -O GUARD "$device" | tr -d ' ')
kill -KILL "$guard"
wait_until "the guard is gone" process_gone "$guard"
nbdloop_refuses 'goes on without a guard: its temporary clone would be lost with its server' adopt "$device"
quietly cmp -n 65536 "$device" "$dir/data"
server_pid "$device" >"$dir/pid"
nbdloop_detach "$device"
unchanged

# Refused.
usage_status=2 nbdloop_refuses '--temporary is not possible with --read-only' attach --temporary --read-only "$image"
usage_status=2 nbdloop_refuses '--temporary is not possible with --nooverlap' attach --temporary --nooverlap "$image"
usage_status=2 nbdloop_refuses '--scratch is for --temporary' attach --scratch="$dir" "$image"
usage_status=2 nbdloop_refuses '--temporary is for images' attach --temporary nbd://localhost/

# A layer, by the path that the guard holds; and a temporary clone of it.
quietly nbdloop clone "$image" "$dir/vm.layer"
for option in '' --temporary; do
	# shellcheck disable=SC2086 # no word for ''
	nbdloop_attach $option "$dir/vm.layer"
	expect_equal "size" $((64 << 20)) "$(blockdev --getsize64 "$device")"
	[ -z "$option" ] || quietly cmp -n 4096 "$device" "$dir/data"
	dd if="$dir/data" of="$device" bs=4k count=1 oflag=direct conv=notrunc status=none
	dd if=/dev/zero of="$device" bs=4k seek=100 count=${#option} oflag=direct conv=notrunc status=none
	nbdloop_detach "$device"
done
unchanged
# Its raw bytes are never attached by mistake.
mv "$dir/vm.layer" "$dir/vm.renamed"
nbdloop_refuses 'begins as a layer does' attach "$dir/vm.renamed"
