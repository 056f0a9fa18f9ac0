#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop attach makes the same device of an image as losetup does with the same options: its size
# and bytes, logical blocks, read-only or not, direct I/O. It warns and refuses where losetup does.
# It loads the driver itself, and creates nodes where nobody else does. Nothing is left of a device
# that was detached, or that could not be attached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require blockdev sgdisk
image=$dir/disk.img

# Both must fail for the same reason, given as one word.
refused_like_losetup() # REGEX OPTION...
{
	local wanted=$1
	shift
	! losetup --find --show "$@" >"$dir/losetup.log" 2>&1 || fail "losetup accepts $*"
	nbdloop_refuses "$wanted" attach "$@"
	expect_nothing_left
}

warns_like_losetup() # LOSETUP'S-TEXT TEXT IMAGE OPTION...
{
	local losetups=$1 warning=$2
	shift 2
	attach_loop "$@"
	detach_loop "$loop_device"
	nbdloop_attach "$@"
	nbdloop_detach "$device"
	grep -qE "$losetups" "$dir/losetup.log" || fail "losetup doesn't warn: $losetups"
	grep -qE "^nbdloop: warning: .*: .*$warning" "$dir/attach.log" || fail "nbdloop doesn't warn: $warning"
}

mark_kernel_log
modprobe loop
[ ! -e /sys/module/nbd ] || fail "the driver is loaded already"
head -c 3000000 /dev/urandom >"$image"
truncate -s 3M "$image"
like_losetup "$image"
[ -e /sys/module/nbd ] || fail "the driver was not loaded"
for options in "-r" "--read-only -o 4096" "-o 1MiB" "--offset=512" "--sizelimit 100KiB" "-o 64k --sizelimit=1MB" \
	"--offset 1k --sizelimit 1G" "-b 512" "-b 1024" "-b 2048" "--sector-size=4096" "--direct-io=on" "--direct-io=off" \
	"--direct-io -r" "--direct-io=on -b 4096 -o 8k" "-P" "-L"; do
	# shellcheck disable=SC2086 # several words
	like_losetup "$image" $options
done
usage_status=2 refused_like_losetup 'sector-size=1234: must be' -b 1234 "$image"
refused_like_losetup 'missing\.img: No such file' "$dir/missing.img"
usage_status=2 refused_like_losetup 'offset=-1: must be' -o -1 "$image"
refused_like_losetup 'neither a file nor' "$dir"
# losetup makes a device of size 0 here.
: >"$dir/empty.img"
nbdloop_refuses '^nbdloop: [^ ]*empty\.img is empty' attach "$dir/empty.img"
nbdloop_refuses 'disk\.img' attach -o 1G "$image"
expect_nothing_left
head -c 1000 /dev/urandom >"$dir/odd.img"
# losetup's wording differs from version to version.
warns_like_losetup "end of the file will be ignored" "the last 488 bytes can't be reached" "$dir/odd.img"
warns_like_losetup "end of the file will be ignored" "the last 488 bytes can't be reached" "$dir/odd.img" -b 512
nbdloop_attach -o 77 "$image"
nbdloop_detach "$device"
grep -q "offset=77 is no multiple of the sector size, 512 bytes; the last 435 bytes can't be reached" "$dir/attach.log" ||
	fail "nothing tells that it is the offset's fault: $(cat "$dir/attach.log")"

# Attaching to a named device prints nothing unless it was asked for.
expect_equal "what attaching to a named device prints" "" "$(nbdloop attach "$image" /dev/nbd3)"
expect_equal "size of the named device" $((3 << 20)) $(($(device_sectors /dev/nbd3) * 512))
nbdloop_refuses "nbd3 is attached already, to $image; detach it first" attach "$dir/odd.img" nbd3
# The device is checked first: the image is in use, too.
nbdloop_refuses "nbd3 is attached already, to $image; detach it first" attach "$image" nbd3
nbdloop_refuses "^nbdloop: $image: it is attached already, as /dev/nbd3; detach that, or use -L to use it$" attach "$image"
nbdloop_refuses "another part of it, which overlaps, is attached already, as /dev/nbd3; detach that$" attach -o 4096 "$image"
usage_status=2 nbdloop_refuses '--find chooses a free device' attach -f "$image" nbd4
nbdloop_detach /dev/nbd3
nbdloop_refuses 'nbd3 is not attached' detach /dev/nbd3
nbdloop_refuses 'there is no device /dev/nbd999' detach /dev/nbd999
expect_nothing_left

# Parts of one image that don't overlap, each with a device; then the whole image, read-only, with
# two devices.
nbdloop_attach -o 4096 --sizelimit 8192 "$image"
first=$device
nbdloop_attach -o 12k --sizelimit 1M "$image"
second=$device
nbdloop_attach -r -o 2M "$image"
dd if=/dev/zero of="$second" bs=4k count=1 oflag=direct status=none
quietly cmp -n 8192 "$first" "$image" 0 4096
quietly cmp -n 4096 /dev/zero "$image" 0 12288
nbdloop_refuses "it is attached already, as $second; detach that, or use -L to use it$" attach -o 12k --sizelimit 1M "$image"
nbdloop_refuses "another part of it, which overlaps, is attached already, as $first; detach that$" attach --sizelimit 8192 "$image"
nbdloop_detach "$device" "$second" "$first"
nbdloop_attach -r "$image"
first=$device
nbdloop_attach -r "$image"
nbdloop_detach "$device" "$first"
expect_nothing_left

# --nooverlap, compared with losetup's.
overlap() # WANTED-STATUS OPTION...
{
	local wanted=$1 losetup=0 nbdloop=0
	shift
	losetup --find --show --nooverlap "$@" "$image" >"$dir/losetup.out" 2>"$dir/losetup.log" || losetup=$?
	nbdloop attach --show --nooverlap --force "$@" "$image" >"$dir/nbdloop.out" 2>"$dir/nbdloop.log" || nbdloop=$?
	expect_equal "status of losetup -L $*" "$wanted" "$losetup"
	expect_equal "status of nbdloop attach -L $*" "$wanted" "$nbdloop"
	if [ "$wanted" = 0 ]; then
		expect_equal "losetup's device with -L $*" "$loop_device" "$(cat "$dir/losetup.out")"
		expect_equal "nbdloop's device with -L $*" "$device" "$(cat "$dir/nbdloop.out")"
	fi
}
attach_loop "$image" -o 4096 --sizelimit 8192
nbdloop_attach --force -o 4096 --sizelimit 8192 "$image"
overlap 0 -o 4096 --sizelimit 8192
overlap 1
overlap 1 -o 8192 --sizelimit 8192
overlap 1 --sizelimit 4608
detach_loop "$loop_device"
nbdloop_detach "$device"
attach_loop "$image" -r
nbdloop_attach -r "$image"
overlap 0 -r
overlap 1
detach_loop "$loop_device"
nbdloop_detach "$device"
expect_nothing_left

# Partitions are there when attach returns; in a container without device nodes, too.
quietly sgdisk -a 1 -n 1:2048:3071 -n 2:3072:4095 "$image"
nbdloop_attach "$image" /dev/nbd1
for node in /dev/nbd1p1 /dev/nbd1p2; do
	expect_equal "size of $node" $((512 << 10)) "$(blockdev --getsize64 $node)"
done
nbdloop_detach /dev/nbd1
[ ! -e /dev/nbd1p1 ] || fail "a partition's node is left"
cat >"$dir/container.sh" <<'END'
set -eu
mount -t tmpfs none /dev
mknod /dev/null c 1 3
device=$(nbdloop attach "$1")
[ -b "$device" ] && [ -b "${device}p2" ]
dd if="${device}p2" of=/dev/null bs=4k
nbdloop detach "$device"
[ ! -e "${device}p2" ]
END
quietly unshare -m bash "$dir/container.sh" "$image"
expect_nothing_left
expect_quiet_kernel
