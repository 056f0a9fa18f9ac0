#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With nbdloop attach --server=nbdkit, nbdkit with the loop plugin is the server, and every verb
# works as it does with nbdloopd.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
truncate -s 64M "$image"

program_of() # DEVICE
{
	control "$(control_of "$1")" status program
}

nbdkit_is_gone()
{
	! pgrep -x nbdkit >/dev/null
}

nbdloop_attach --server=nbdkit --connections=2 "$image"
expect_equal "the server" nbdkit-loop-plugin "$(program_of "$device")"
expect_equal "the server in the list" nbdkit-loop-plugin "$(nbdloop list --noheadings -O SERVER "$device" | tr -d ' ')"
expect_connections "$device" 2
mkfs.ext4 -q "$device"
mount_at "$dir/mnt" "$device"
head -c 8M /dev/urandom >"$dir/data"
cp "$dir/data" "$dir/mnt/data"

for wanted in off on; do
	expect_equal "what set says" "$device: direct I/O $wanted" "$(nbdloop set "--direct-io=$wanted" "$device")"
done

# Write also beyond the end that nbdkit's first connections saw.
truncate -s 128M "$image"
quietly nbdloop resize "$device"
expect_equal "size after resize" $((128 << 20)) "$(blockdev --getsize64 "$device")"
quietly resize2fs "$device"
head -c 80M /dev/zero | tr '\0' '\245' >"$dir/mnt/large"
sync -f "$dir/mnt"

for how in kill replace; do
	before=$(server_pid "$device")
	if [ $how = kill ]; then kill -KILL "$before"; else quietly nbdloop replace-server "$device"; fi
	cp "$dir/data" "$dir/mnt/data.$how"
	sync -f "$dir/mnt"
	[ "$(server_pid "$device")" != "$before" ] || fail "$how: the same server"
	expect_equal "the server after $how" nbdkit-loop-plugin "$(program_of "$device")"
done

umount "$dir/mnt"
nbdloop_detach "$device"
expect_nothing_left
nbdkit_is_gone || fail "nbdkit still runs"
quietly e2fsck -f -n "$image"
for name in data data.kill data.replace; do
	debugfs -R "cat /$name" "$image" 2>/dev/null | cmp - "$dir/data" || fail "$name is another in the image"
done

# The message is the server's own, not that of a closed connection.
nbdloop_refuses 'direct-io=on' attach --server=nbdkit --direct-io=on -o 100 "$image"
usage_status=2 nbdloop_refuses '--server is for images' attach --server=nbdkit nbd://127.0.0.1
nbdloop_attach --server=nbdkit --read-only --threads=4 --engine=threads "$image"
expect_equal "read-only" 1 "$(blockdev --getro "$device")"
expect_equal "the engine" threads "$(nbdloop list --noheadings -O ENGINE "$device" | tr -d ' ')"
nbdloop_refuses 'disk.img' attach "$image"
nbdloop_detach "$device"
expect_nothing_left
nbdkit_is_gone || fail "nbdkit still runs"
