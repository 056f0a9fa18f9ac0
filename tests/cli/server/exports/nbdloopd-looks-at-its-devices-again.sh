#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGHUP and when a client connects, the log says what became of a block device that is served:
# its name leads to another device, it has another medium, it is read-only.  A loop device that is
# detached meanwhile stays as it is.  So the log says that a loop device was made of an image, and
# that an error has made a file system read-only, whose images are read-only then.
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "loop devices and mounts"
require losetup mke2fs blockdev
require_python_nbd
for name in one two three four; do
	truncate -s 1M "$dir/$name.img"
done

hup()
{
	kill -HUP "$pid"
}

awaits_log() # REGEX
{
	wait_until "the log says: $1" grep -qE -- "$1" "$log"
}

# Tries a write of one client. Prints the error, if it fails.
write_once() # EXPORT
{
	"$python" - "nbd+unix:///$1?socket=$sock" <<'EOF'
import sys
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
try:
    h.pwrite(b"x" * 512, 0, nbd.CMD_FLAG_FUA)
except nbd.Error as error:
    print(error.errno)
EOF
}

# ---- devices
attach_loop "$dir/one.img"
first=$loop_device
blockdev --setrw "$first" # its last user may have left it otherwise
attach_loop "$dir/two.img"
second=$loop_device
attach_loop "$dir/three.img" --read-only
medium=$loop_device
ln -s "$first" "$dir/link"
start_nbdloopd --export "link=$dir/link" --export "medium=$medium"
ln -sfn "$second" "$dir/link"
hup
awaits_log "warning: $dir/link: another device has this name now; the one that was opened is still served"
ln -sfn "$first" "$dir/link"
expect_equal "a write" "" "$(write_once link)"
expect_log "$dir/link: no longer true: another device has this name"

blockdev --setro "$first"
hup
awaits_log "warning: $dir/link: writes fail, because the device is read-only"
expect_equal "a write to a read-only device" EIO "$(write_once link)"
blockdev --setrw "$first"
expect_equal "a write" "" "$(write_once link)"
expect_log "$dir/link: no longer true: writes fail, because the device is read-only"

"$python" - "$medium" "$dir/two.img" <<'EOF'
import fcntl
import sys
LOOP_CHANGE_FD = 0x4C06
with open(sys.argv[1], "rb") as device, open(sys.argv[2], "rb") as file:
    fcntl.ioctl(device, LOOP_CHANGE_FD, file.fileno())
EOF
hup
if [ -e "/sys/block/$(basename "$medium")/diskseq" ]; then
	awaits_log "warning: $medium: the device was replaced, or has another medium; the export must be removed and added again"
fi

# The kernel keeps a device that somebody has open.
losetup -d "$first"
expect_equal "a write to a device that is being detached" "" "$(write_once link)"
reject_log "gone"
stop_server
wait_until "the loop device is detached" has_no_file "$first"
unset "loop_devices[$first]"

# ---- loop devices that are made of images
truncate -s 2M "$dir/halves.img"
start_nbdloopd --export "whole=$dir/one.img" --export "half=$dir/halves.img,sizelimit=1M" \
	--export "reader=$dir/four.img,read-only=on"
attach_loop "$dir/one.img"
third=$loop_device
attach_loop "$dir/halves.img" --offset 1M
other_half=$loop_device
attach_loop "$dir/four.img"
hup
awaits_log "warning: $dir/one\.img: $third is made of it: end that, or the image may be damaged"
awaits_log "warning: $dir/four\.img: $loop_device is made of it: clients may read a mixture of old and new data"
reject_log "halves\.img: .* is made of it"
detach_loop "$third"
detach_loop "$other_half"
expect_equal "a write" "" "$(write_once whole)"
expect_log "$dir/one\.img: no longer true: $third is made of it"
stop_server

# ---- a file system
quietly mke2fs -q -t ext4 "$dir/fs.img" 16M
attach_loop "$dir/fs.img"
mkdir "$dir/mounted"
mount -o errors=remount-ro "$loop_device" "$dir/mounted"
on_exit sh -c "! mountpoint -q $dir/mounted || umount -l $dir/mounted"
image=$dir/mounted/disk.img
truncate -s 1M "$image"
start_nbdloopd "$image"
# Somebody who means well can't do it.
! mount -o remount,ro "$dir/mounted" 2>/dev/null || fail "a file system could be made read-only under a server"
trigger=/sys/fs/ext4/$(basename "$loop_device")/trigger_fs_error
[ -w "$trigger" ] || skip "this kernel can't make errors of ext4"
echo "a test of nbdloopd" >"$trigger"
hup
awaits_log "warning: .*disk\.img: writes fail, because its file system is (mounted read-only|read-only after an error)"
[ -n "$(write_once "")" ] || fail "a write to a read-only file system succeeded"
stop_server
start_nbdloopd "$image"
stop_server
expect_log "disk\.img: .*, read-only \(its file system is (mounted read-only|read-only after an error)"
