#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# After the guard of a URI's device was killed, nbdloop adopt gives the device another guard. That
# guard keeps the existing connections, since the server may allow no others. It makes new
# connections when they end, also if they ended earlier, between the two guards, or while there was
# no server. fio, which writes and verifies all the time, sees no error. On one connection, a
# request that was in flight is repeated within seconds after the server is back. Either guard gives
# up a silent server.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
require qemu-nbd
image=$dir/remote.img
server_files
remote=$uri

start_remote()
{
	rm -f "$sock"
	start_nbdloopd --control "$dir/server.control" "$image"
}

connections_are() # COUNT
{
	[ "$(control "$dir/server.control" status exports.0.connections)" = "$1" ]
}

kill_guard()
{
	guard=$(nbdloop list -n -O GUARD "$device" | tr -d ' ')
	[ -e "/proc/$guard" ] || fail "$device has no guard: \"$guard\""
	kill -KILL "$guard"
	wait_until "the guard is gone" process_gone "$guard"
}

expect_guard()
{
	guard=$(nbdloop list -n -O GUARD "$device" 2>"$dir/list.log" | tr -d ' ')
	[ -e "/proc/$guard" ] || fail "$device has no guard: \"$guard\""
	[ ! -s "$dir/list.log" ] || fail "the list warns"
}

expect_nothing_of_nbdloop()
{
	local files=(/run/nbdloop/*)
	[ ! -e "${files[0]}" ] || fail "left in /run/nbdloop: ${files[*]}"
	! pgrep -lx nbdloop >"$dir/left.log" || fail "a guard is left"
}

mark_kernel_log
truncate -s 64M "$image"
start_remote
nbdloop_attach --connections 2 --timeout 5 --dead-timeout 500 "$remote"
nbdloop_refuses "$device has a guard that is alive" adopt "$device"
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
kill_guard
nbdloop list "$device" >"$dir/list" 2>"$dir/list.log" || fail "nbdloop list fails"
grep -q "its guard was killed, and nothing would connect again to its server: nbdloop adopt $device" "$dir/list.log" ||
	fail "the list doesn't warn"
quietly nbdloop adopt "$device"
expect_guard
# The guard looks at the connections now and then.
sleep 5
connections_are 2 || fail "the connections have changed"
! kernel_log | grep -E "nbd[0-9]+: (Receive|Send|Dead)" || fail "the connections have ended"
kill_server
sleep 2
start_remote
wait_until "the server that was started again has both connections" connections_are 2
expect_load

# This guard sees one restart of the server; no guard sees the second restart, which the next guard
# has to find.
kill_server
start_remote
wait_until "it has both again" connections_are 2
expect_load
kill_guard
kill_server
start_remote
quietly nbdloop adopt "$device"
expect_guard
wait_until "it has both connections after adopt" connections_are 2
expect_load

# There is no server.
kill_guard
kill_server
sleep 2
nbdloop_refuses "$device has a guard again, but no new connection yet; the guard keeps trying:" adopt "$device"
expect_guard
start_remote
wait_until "it has both connections when it is there" connections_are 2
end_load
nbdloop_detach "$device"
expect_nothing_of_nbdloop
stop_server
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"

# This server allows only one connection at a time.
one_client()
{
	rm -f "$sock"
	spawn one qemu-nbd --persistent --shared=1 --socket="$sock" --format=raw "$image"
	wait_until "qemu-nbd listens" listens "$sock"
}

restart_one()
{
	end_process one KILL
	one_client
}

# The kernel has no time limit here.
falls_silent()
{
	! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
	mark_kernel_log
	kill -STOP "${process_pids[one]}"
	spawn writer dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none
	wait_until "the kernel gives the connection up" given_up
	restart_one
	wait_until "the request is repeated" process_gone "${process_pids[writer]}"
	end_process writer
	expect_equal "status of the writer" 0 "$end_status"
	wait_until "the kernel has no limit again" grep -qx 5000 "/sys/block/${device#/dev/}/queue/io_timeout"
}

given_up()
{
	kernel_log | grep -E 'timed out, retrying' >/dev/null
}

one_client
nbdloop_attach --dead-timeout 500 "$remote"
expect_request_soon_repeated "${process_pids[one]}" restart_one
kill_guard
quietly timeout 25 nbdloop adopt "$device"
falls_silent
expect_request_soon_repeated "${process_pids[one]}" restart_one
dd if=/dev/urandom of="$dir/data" bs=1M count=8 status=none
quietly dd if="$dir/data" of="$device" bs=1M conv=fsync status=none
end_process one KILL
one_client
echo 3 >/proc/sys/vm/drop_caches
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
kill_guard
nbdloop_detach "$device"
expect_nothing_of_nbdloop
end_process one TERM
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
