#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: memory 2G
# vm: limit 900
# The server of an attached device is killed again and again while fio writes and verifies in a file system on it: there is
# no error, no write is lost, and each time another server goes on.  The same with several connections, and for
# a server elsewhere that comes back.  Without the guard, the device works on, and can be detached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
tree=$(dirname "$0")/tree.py
image=$dir/disk.img

start_fio() # DIRECTORY SECONDS
{
	spawn fio fio --name=load --directory="$1" --size=24M --rw=randwrite --bsrange=4k-128k --ioengine=libaio --iodepth=8 \
		--direct=1 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --fsync=32 \
		--time_based --runtime="$2" --output="$dir/fio.out"
}

# fio ends by itself, with all verified.
end_fio()
{
	local pid=${process_pids[fio]}
	poll_for 60 process_gone "$pid" || fail "fio does not end"
	end_process fio
	cat "$dir/fio.out" >>"$dir/fio.log"
	expect_equal "fio's status" 0 "$end_status"
	! grep -E 'verify:|fio: .*error|err=[^ ]*[1-9]' "$dir/fio.log" || fail "fio has found an error"
}

another_server() # PID
{
	local now
	now=$(pgrep -x nbdloopd) && [ "$now" != "$1" ]
}

kill_the_server()
{
	local pid
	pid=$(pgrep -x nbdloopd)
	kill -KILL "$pid"
	wait_until "there is another server than $pid" another_server "$pid"
}

# So many times, at any moment, also when the next server has just begun.
kill_servers() # TIMES
{
	local i
	for ((i = 0; i < $1; i++)); do
		sleep "$((i % 2)).$((RANDOM % 10))"
		! process_gone "${process_pids[fio]}" || fail "fio has ended after $i of $1 kills"
		kill_the_server
	done
}

survives() # KILLS SECONDS-OF-FIO OPTION...
{
	local kills=$1 seconds=$2
	shift 2
	mark_kernel_log
	rm -f "$image"
	truncate -s 96M "$image"
	nbdloop_attach "$@" "$image"
	# Not 5 seconds: what was under way is sent again after this time.
	[ "$#" -gt 0 ] || echo 1000 >"/sys/block/${device#/dev/}/queue/io_timeout"
	quietly mkfs.ext4 -q "$device"
	mount_at "$dir/mounted" "$device"
	mkdir "$dir/mounted/tree"
	quietly "$python" "$tree" write "$dir/mounted/tree" 1 60
	start_fio "$dir/mounted" "$seconds"
	kill_servers "$kills"
	end_fio
	quietly "$python" "$tree" check "$dir/mounted/tree" 1 60
	unmount "$dir/mounted"
	nbdloop_detach "$device"
	expect_nothing_left
	quietly e2fsck -f -n "$image"
	! kernel_log | grep -E 'I/O error|EXT4-fs (error|warning)' || fail "the kernel had I/O errors"
	echo "${*:-one connection}: $kills kills, $SECONDS s"
}

survives 12 60
survives 3 30 --connections 2 --timeout 4

# Somebody else's server.
mark_kernel_log
truncate -s 16M "$dir/remote.img"
start_nbdloopd "$dir/remote.img"
nbdloop_attach --timeout 4 "$uri"
expect_equal "backend" "$uri" "$(cat "/sys/block/${device#/dev/}/backend")"
dd if=/dev/urandom of="$dir/data" bs=1M count=8 status=none
dd if="$dir/data" of="$device" bs=64k conv=fsync status=none &
writer=$!
sleep 0.5
kill_server
sleep 1
start_nbdloopd "$dir/remote.img"
wait $writer || fail "writing fails when the remote server was started again"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
quietly cmp -n $((8 << 20)) "$dir/data" "$dir/remote.img"
stop_server
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
expect_nothing_left

# Nobody guards it any more.
nbdloop_attach "$dir/remote.img"
guard=$(control_of "$device")
guard=${guard##*/}
kill -KILL "${guard%.sock}"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
expect_nothing_left
