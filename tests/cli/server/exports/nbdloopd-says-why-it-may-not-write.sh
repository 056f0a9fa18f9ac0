#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An image that the server can't write to is served read-only, and the line at the start and the
# status say why: an immutable file, a mount that is read-only for this process only, a file system
# that is mounted read-only. With read-only=off, the server does not start then.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdinfo unshare chattr mke2fs
require_root "immutable files, mounts"
image=$dir/disk.img
truncate -s 1M "$image"
chattr +i "$image" 2>"$dir/chattr.log" || skip "no immutable files here: $(cat "$dir/chattr.log")"
on_exit chattr -i "$image"

says_why() # REASON IMAGE
{
	local server_program
	for server_program in nbdloopd nbdkit; do
		start_server -- "$2"
		connect_once
		stop_server
		expect_log "disk\.img: .*, read-only \($1\)$"
	done
	refuse_nbdloopd 1 -U "$dir/never.sock" --read-only=off "$2"
	expect_log "disk\.img: read-only=off is not possible: $1"
	start_nbdloopd --read-only "$2"
	stop_server
	expect_log "disk\.img: .*, read-only$"
}

says_why "it is immutable; chattr -i ends that" "$image"

start_nbdloopd --control "$dir/control" "$image"
expect_equal "reason in the status" "it is immutable; chattr -i ends that" \
	"$(control "$dir/control" status exports.0.read_only_reason)"
stop_server
chattr -i "$image"
start_nbdloopd --read-only=off "$image"
stop_server
expect_log "disk\.img: .*, writable$"

# ---- mounts
mkdir "$dir/there"
cp "$image" "$dir/there/disk.img"
server_prefix=(unshare --mount sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' "$dir/there")
says_why "it is mounted read-only for this process; a service needs ReadWritePaths= in its unit" "$dir/there/disk.img"
server_prefix=()
quietly mke2fs -q -t ext4 -d "$dir/there" "$dir/fs.img" 8M
attach_loop "$dir/fs.img" --read-only
mkdir "$dir/mounted"
mount -o ro "$loop_device" "$dir/mounted"
on_exit sh -c "! mountpoint -q $dir/mounted || umount -l $dir/mounted"
says_why "its file system is mounted read-only" "$dir/mounted/disk.img"
umount "$dir/mounted"
