#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server refuses to serve an image writable, unless it is forced, while the kernel uses that
# image otherwise: a file that a loop device is made of, or that is mounted through one, under
# whatever name; a block device that is mounted or that carries a loop device. The message names the
# user of the image; read-only service only warns. A served block device can't be mounted, and
# clients can still punch holes in it.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo mke2fs
require_python_nbd
image=$dir/disk.img
make_ext4_image "$image" 32M
mkdir "$dir/mounted"
on_exit sh -c "! mountpoint -q $dir/mounted || umount -l $dir/mounted"

refused() # REGEX IMAGE [KEY=VALUE...]
{
	local wanted="not served writable, because $1" file=$2
	shift 2
	refuse_nbdloopd 1 -U "$dir/never.sock" "${@/#/--}" "$file"
	expect_log "$wanted"
	expect_log 'force=on \(--force\)'
	# nbdkit doesn't tell the plugin whether clients may write before the first client connects.
	start_server -- "$file" "$@"
	must_fail nbdinfo "$uri"
	expect_log "$wanted"
	stop_server
}

# Leaves what the log says in $log.
served() # [-r] -- IMAGE [KEY=VALUE...]
{
	for server_program in nbdloopd nbdkit; do
		start_server "$@"
		connect_once
		stop_server
		[ -z "$warning" ] || expect_log "warning: .*$warning"
		[ -n "$warning" ] || reject_log 'is made of it|so it may change|force'
	done
	server_program=nbdkit
}

warning=
served -- "$image"

# ---- a file with a loop device on it
attach_loop "$image"
refused "$loop_device is made of it; " "$image"
warning="$loop_device is made of it, so it may change" served -r -- "$image"
warning="$loop_device is made of it; force=on" served -- "$image" force=on
if [ -x "$top_builddir/tool/nbdloop" ]; then
	must_fail nbdloop attach --nooverlap "$image"
	grep -q "attached already, to $loop_device; " "$dir/refused.log" || fail "attach --nooverlap doesn't name $loop_device"
fi
ln "$image" "$dir/link.img"
mv "$image" "$dir/renamed.img"
refused "$loop_device is made of it; " "$dir/link.img"
refused "$loop_device is made of it; " "$dir/renamed.img"
mv "$dir/renamed.img" "$image"
patiently_mount "$loop_device" "$dir/mounted"
refused "$loop_device is made of it, and is mounted on $dir/mounted; " "$image"
# The mounted loop device is also a block device.
refused "it is mounted on $dir/mounted; " "$loop_device"
umount "$dir/mounted"
detach_loop "$loop_device"
served -- "$image"

# The loop device covers another part of the image.
attach_loop "$image" --offset 1M --sizelimit 2M
served -- "$image" offset=3M
served -- "$image" sizelimit=1M
refused "$loop_device is made of it; " "$image" offset=2M
detach_loop "$loop_device"

# A read-only loop device is harmless until something on it relies on stable contents.
attach_loop "$image" --read-only
served -- "$image"
served -r -- "$image"
patiently_mount -o ro,noload "$loop_device" "$dir/mounted"
refused "$loop_device is made of it, and is mounted on $dir/mounted; " "$image"
served -r -- "$image"
umount "$dir/mounted"
detach_loop "$loop_device"

# ---- a block device
cat >"$dir/client.py" <<'EOP'
import sys, nbd

h = nbd.NBD()
h.connect_uri(sys.argv[1])
for round in range(20):
    h.pwrite(b"x" * (1 << 20), 1 << 20)
    if round % 2:
        h.zero(1 << 20, 1 << 20)
    else:
        h.trim(1 << 20, 1 << 20)
    h.pread(1 << 20, 1 << 20)
h.zero(1 << 20, 1 << 20)
assert h.pread(1 << 20, 1 << 20) == bytes(1 << 20)
EOP

holes_are_made()
{
	start_server -- "$device" engine="$engine" direct-io=off
	"$python" "$dir/client.py" "$uri" || fail "zeroes can't be had"
	! mount "$device" "$dir/mounted" 2>"$dir/mount.log" || fail "what is served can be mounted"
	kill_server
	# The next server gets the device as soon as the kernel releases it.
	start_server -- "$device" engine="$engine"
	connect_once
	stop_server
	reject_log 'no holes can be made|zeroes are written|fallocate|busy'
}

attach_loop "$image"
device=$loop_device
each_target holes_are_made
attach_loop "$device"
refused "$loop_device is made of it; " "$device"
detach_loop "$loop_device"
quietly mke2fs -q -F -t ext4 "$device"
patiently_mount "$device" "$dir/mounted"
umount "$dir/mounted"
