#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu the next process ID is set (ns_last_pid)
# vm: limit 900
# After the guard of a device was killed, list and status say so. nbdloop adopt gives the device
# another guard, while fio writes and verifies on the device. There is no error, the options of the
# attach stay in force, and servers are restarted as before. Adopting works repeatedly, when the
# image was renamed or removed, and when the server was killed, too.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
image=$dir/disk.img

# Sets $guard.
find_guard()
{
	guard=$(nbdloop list -n -O GUARD "$device" | tr -d ' ')
	[ -e "/proc/$guard" ] || fail "$device has no guard: \"$guard\""
}

kill_guard()
{
	find_guard
	kill -KILL "$guard"
	wait_until "the guard is gone" process_gone "$guard"
	expect_equal "the guard in the list" 0 "$(nbdloop list -n -O GUARD "$device" 2>"$dir/list.log" | tr -d ' ')"
	grep -q "^nbdloop: warning: $device: its guard was killed, and nothing would restart its server" "$dir/list.log" ||
		fail "the list doesn't warn"
}

adopt()
{
	local before
	before=$(server_pid "$device")
	quietly nbdloop adopt "$device"
	find_guard
	[ "$(server_pid "$device")" != "$before" ] || fail "it is the same server"
	expect_equal "parent of the server" "$guard" "$(ps -o ppid= -p "$(server_pid "$device")" | tr -d ' ')"
}

another_server() # PID
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ "$now" != "$1" ]
}

# The guard starts another server, as after attach.
kill_server_of_device()
{
	local before
	before=$(server_pid "$device")
	kill -KILL "$before"
	wait_until "there is another server" another_server "$before"
}

# These facts must stay as they are.
facts()
{
	nbdloop list -n --raw -O NAME,OFFSET,SIZELIMIT,RO,DIO,LOG-SEC,SIZE,CONNECTIONS,ENGINE,BACKEND "$device"
}

mark_kernel_log
truncate -s 64M "$image"
nbdloop_attach -o 1M --sizelimit 32M -b 4096 --engine=threads "$image"
nbdloop_refuses "$device has a guard that is alive" adopt "$device"
quietly nbdloop set --direct-io=off --bandwidth-limit=1G "$device"
before=$(facts)
start_load --filename="$device" --size=24M --bsrange=4k-128k --iodepth=8
kill_guard
nbdloop_refuses 'has no guard any more.*nbdloop adopt' replace-server "$device"
nbdloop status "$device" >"$dir/status" || fail "nbdloop status fails"
grep -q '^guard: none: .*nothing would restart' "$dir/status" || fail "status doesn't tell it"
adopt
expect_equal "the device, adopted" "$before" "$(facts)"
kill_server_of_device
expect_load
quietly nbdloop set --direct-io=on "$device"
quietly nbdloop replace-server "$device"
# Adopt again, while another file has the image's name.
mv "$image" "$dir/moved.img"
truncate -s 64M "$image"
kill_guard
adopt
expect_equal "the image, renamed" "$dir/moved.img" "$(nbdloop list -n -O BACK-FILE "$device")"
expect_equal "direct I/O" true "$(direct_io_of "$device")"
kill_server_of_device
kill_guard
rm "$dir/moved.img"
adopt
expect_equal "the limit" $((1 << 30)) "$(control "$(control_of "$device")" status exports.0.limits.bandwidth.both)"
expect_equal "the image, removed" "$dir/moved.img (deleted)" "$(nbdloop list -n -O BACK-FILE "$device")"
expect_load
# Several adopt the device at once: one of them succeeds.
kill_guard
for i in 1 2 3; do
	nbdloop adopt "$device" >"$dir/adopt$i.log" 2>&1 && echo "$i" >>"$dir/adopted" &
done
wait_until "the device is adopted" test -s "$dir/adopted"
wait_until "all have ended" eval '! pgrep -f "nbdloop adopt"'
expect_equal "how many have adopted it" 1 "$(wc -l <"$dir/adopted")"
kill_server_of_device
end_load
nbdloop_detach "$device"
expect_nothing_left

# Neither a server nor a guard is left.
head -c 8M /dev/urandom >"$image"
nbdloop_attach --connections 2 --timeout 4 "$image"
find_guard
kill -KILL "$guard" "$(server_pid "$device")"
wait_until "both are gone" no_process
nbdloop list "$device" >"$dir/list" 2>"$dir/list.log" || fail "nbdloop list fails"
grep -q 'its server and its guard are gone' "$dir/list.log" || fail "the list doesn't tell it"
quietly nbdloop adopt "$device"
quietly cmp "$image" "$device"
kill_server_of_device
quietly dd if=/dev/urandom of="$device" bs=1M count=8 conv=fsync status=none
quietly cmp "$image" "$device"
nbdloop_detach "$device"

# A new guard, whose process ID could be that of the killed guard, leaves the killed guard's files
# alone.
nbdloop_attach "$image"
kill_guard
killed=$guard
first=$device
truncate -s 8M "$dir/other.img"
for i in 1 2 3 4; do
	echo $((killed - i)) >/proc/sys/kernel/ns_last_pid
	nbdloop_attach "$dir/other.img"
	nbdloop_detach "$device"
done
device=$first
adopt
kill_server_of_device
quietly cmp "$image" "$device"

# The guard is killed, and then the device is detached: nothing is left here, either.
kill_guard
nbdloop_detach "$device"
expect_nothing_left
# The machine swaps to the device: its new guard and server have the same privileges as the first
# ones. The same holds for nbdkit as the server.
granted() # PID
{
	awk '/^VmLck:/ {locked = $2 > 10000} END {printf "%s ", locked ? "locked" : "not locked"}' "/proc/$1/status"
	chrt -p "$1" | sed 's/.*: //' | xargs
	cat "/proc/$1/oom_score_adj"
}

for server in nbdkit nbdloopd; do
	head -c 8M /dev/urandom >"$image"
	nbdloop_attach --swap=raise --server=$server "$image"
	find_guard
	before=$(granted "$guard"; granted "$(server_pid "$device")"; facts)
	program=$(control "$(control_of "$device")" status program)
	quietly mkswap "$device"
	quietly swapon "$device"
	kill_guard
	adopt
	expect_equal "what is granted with --server=$server" "$before" "$(granted "$guard"; granted "$(server_pid "$device")"; facts)"
	expect_equal "the server" "$program" "$(control "$(control_of "$device")" status program)"
	kill_server_of_device
	quietly swapoff "$device"
	nbdloop_detach "$device"
	expect_nothing_left
	wait_until "the server is gone" eval '! pgrep -x nbdkit'
done
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"

# The guard and its server are killed: detach says that written data was lost, and that the device
# is gone.
nbdloop_attach --dead-timeout 2 "$image"
find_guard
kill -KILL "$guard" "$(server_pid "$device")"
wait_until "both are gone" no_process
dd if=/dev/zero of="$device" bs=64k count=1 2>"$dir/dd.log" || true
nbdloop_refuses "^nbdloop: $device is detached, but some of the written data could not be stored, and is lost now: " \
	detach "$device"
device_is_gone "$device" || fail "$device is still there"
expect_nothing_left

# The guard is killed, and another program detaches the device while it is open: it can't be served
# again, and no guard keeps trying.
nbdloop_attach "$image"
find_guard
exec 9<"$device"
kill -KILL "$guard"
quietly nbd-client -d "$device"
nbdloop_refuses "$device was detached while it was in use, and can.t be served any more: unmount or close it" adopt "$device"
exec 9<&-
wait_until "the device is gone" device_is_gone "$device"
wait_until "its new guard has ended" no_process
expect_nothing_left
