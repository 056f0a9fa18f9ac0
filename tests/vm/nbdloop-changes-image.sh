#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop change gives a read-only device another image while somebody reads the device, as
# LOOP_CHANGE_FD does to a loop device. It refuses what LOOP_CHANGE_FD refuses, no reader sees an
# error, and the next server serves the new image. A change that cannot work leaves the old image in
# place.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require sfdisk strace delpart
old=$dir/old.img new=$dir/new.img

changers=()

make_image() # FILE START-OF-PARTITION
{
	head -c $((16 << 20)) /dev/urandom >"$1"
	sfdisk -q "$1" <<<$'label: dos\n'"$2,4M" || fail "no partition table in $1"
}
make_image "$old" 1M
make_image "$new" 8M

start_of_partition()
{
	cat "/sys/block/${device#/dev/}/$partition/start"
}

# The server has the image from its guard, as /proc/GUARD/fd/N.
served_image()
{
	readlink -f "$(control "$(control_of "$device")" status exports.0.file)"
}

# Reads everything again and again; each time the data is that of one image, or a part of each, but
# there is never an error.
read_on()
{
	while [ ! -e "$dir/stop" ]; do
		dd if="$device" of=/dev/null bs=64k iflag=direct status=none || return 1
		echo again >>"$dir/rounds"
	done
}

mark_kernel_log
nbdloop_attach -r "$old"
partition=${device#/dev/}p1
[ "$(start_of_partition)" = 2048 ] || fail "the partition begins elsewhere"
quietly cmp "$device" "$old"
spawn reader read_on
wait_until "the device is read" test -e "$dir/rounds"
before=$(server_pid "$device")
quietly nbdloop change "$device" "$new"
[ "$(server_pid "$device")" != "$before" ] || fail "it is the same server"
expect_equal "the image that is served" "$new" "$(served_image)"
: >"$dir/rounds"
wait_until "the device is read further" test -s "$dir/rounds"
# Another program, such as udev, rereads the partition table at that moment: for a short time there
# is no partition, whenever nbdloop looks.
for time in 1 2 3; do
	[ -e "/sys/block/${device#/dev/}/$partition" ] || fail "there is no partition"
	rm -f "$dir/strace.log"
	spawn changer strace -qq -o "$dir/strace.log" -P "/sys/block/${device#/dev/}/$partition/dev" \
		-e "inject=openat:signal=STOP:when=$time" nbdloop change "$device" "$new"
	wait_until "nbdloop change looks at the partition" grep -qs 'stopped by SIGSTOP' "$dir/strace.log"
	quietly delpart "$device" 1
	pkill -CONT -x nbdloop
	end_process changer
	[ "$end_status" = 0 ] || fail "no image was changed when there was no partition: $(cat "$dir/changer.log")"
	quietly blockdev --rereadpt "$device"
done
# Several changes at once take place one after the other.
for image in "$old" "$new"; do
	for i in 1 2 3; do
		nbdloop change "$device" "$image" >>"$dir/change.log" 2>&1 || echo "$image, number $i" >>"$dir/failed"
	done &
	changers+=($!)
done
wait "${changers[@]}"
[ ! -e "$dir/failed" ] || fail "not changed: $(cat "$dir/failed" "$dir/change.log")"
touch "$dir/stop"
poll_for 60 process_gone "${process_pids[reader]}" || fail "the reader does not end"
end_process reader
expect_equal "the reader's status" 0 "$end_status"
# The page cache shows no old data, either.
quietly nbdloop change "$device" "$old"
quietly cmp "$device" "$old"
quietly nbdloop change "$device" "$new"
quietly cmp "$device" "$new"
expect_equal "start of the new image's partition" $((8 << 11)) "$(start_of_partition)"
expect_equal "path in the list" "$new" "$(nbdloop list -n -O BACK-FILE "$device")"

# The new image stays when the server dies, and can't be written to.
before=$(server_pid "$device")
kill -KILL "$before"
another_server()
{
	local now
	now=$(pgrep -x nbdloopd) && [ "$now" != "$before" ]
}
wait_until "there is another server" another_server
quietly dd if="$device" of=/dev/null bs=1M iflag=direct
expect_equal "the image after the server's death" "$new" "$(served_image)"
! dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none 2>/dev/null || fail "it can be written to"

# A mounted file system continues to work, which LOOP_CHANGE_FD's users need: a copy of the image
# takes the image's place.
nbdloop_detach "$device"
truncate -s 32M "$dir/fs.img"
quietly mkfs.ext4 -q "$dir/fs.img"
nbdloop_attach "$dir/fs.img"
mount_at "$dir/mounted" "$device"
head -c 8000000 /dev/urandom >"$dir/mounted/data"
sha256sum <"$dir/mounted/data" >"$dir/sum"
unmount "$dir/mounted"
nbdloop_detach "$device"
cp "$dir/fs.img" "$dir/copy.img"
nbdloop_attach -r "$dir/fs.img"
mount_at "$dir/mounted" "$device" -o ro
quietly nbdloop change "$device" "$dir/copy.img"
: >"$dir/fs.img"
echo 3 >/proc/sys/vm/drop_caches
expect_equal "the sum of the file" "$(cat "$dir/sum")" "$(sha256sum <"$dir/mounted/data")"
unmount "$dir/mounted"
nbdloop_detach "$device"
expect_nothing_left
! kernel_log | grep -E 'I/O error|EXT4-fs (error|warning)' || fail "the kernel had I/O errors"

# Refused changes leave the old image in place.
refused() # REGEX IMAGE
{
	local before
	before=$(server_pid "$device")
	nbdloop_refuses "$1" change "$device" "$2"
	expect_equal "server after a refused change" "$before" "$(server_pid "$device")"
	quietly cmp "$device" "$old"
}
head -c $((16 << 20)) "$new" >"$dir/larger.img"
truncate -s 17M "$dir/larger.img"
head -c 1000 "$new" >"$dir/tiny.img"
nbdloop_attach -r "$old"
refused "larger.img would make a device of $((17 << 20)) bytes, and $device has $((16 << 20))" "$dir/larger.img"
refused 'tiny\.img' "$dir/tiny.img"
refused 'missing\.img: No such file' "$dir/missing.img"
refused 'neither a file nor' "$dir"
nbdloop_detach "$device"
nbdloop_refuses 'is not attached' change "$device" "$new"
nbdloop_attach "$old"
refused "$device can be written to" "$new"
nbdloop_detach "$device"
# The file has the same size, but not with its offset.
nbdloop_attach -r -o 1M "$dir/larger.img"
nbdloop_refuses "new.img would make a device of $((15 << 20)) bytes" change "$device" "$new"
nbdloop_detach "$device"
expect_nothing_left
