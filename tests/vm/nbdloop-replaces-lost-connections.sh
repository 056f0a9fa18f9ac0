#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu two processors, from which several connections get requests
# When one of two connections to nbdloop's own server does not answer a request in time, the kernel
# gives that connection up. The program that waits for the request sees no error. Soon the device
# has both connections again, to the same server, which completes what was in flight. The same is
# true for a device's only connection. A server that then does not answer on the next connection is
# replaced.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
head -c 8M /dev/urandom >"$image"
mark_kernel_log
nbdloop_attach --connections=2 --timeout=5 --dead-timeout=600 "$image"
server=$(server_pid "$device")

given_up()
{
	kernel_log | grep -E 'timed out, retrying' >/dev/null
}

connections()
{
	control "$(control_of "$device")" status exports.0.connections
}

# All connections are new.
has_connections_again() # COUNT
{
	local i id
	[ "$(connections)" = "$1" ] || return 1
	for ((i = 0; i < $1; i++)); do
		id=$(control "$(control_of "$device")" status "connections.$i.id")
		[ "$id" -gt "$1" ] || return 1
	done
}

has_no_connection()
{
	[ "$(connections)" = 0 ]
}

expect_equal "connections" 2 "$(connections)"
kill -STOP "$server"
spawn reader dd if="$device" of="$dir/read" bs=4096 count=1 iflag=direct
wait_until "the kernel gives a connection up" given_up
kill -CONT "$server"
wait_until "both connections are there again" has_connections_again 2
expect_equal "the server" "$server" "$(server_pid "$device")"
wait_until "the read ends" process_gone "${process_pids[reader]}"
end_process reader
expect_equal "status of the read" 0 "$end_status"
quietly cmp -n 4096 "$image" "$dir/read"
quietly cmp "$image" "$device"
nbdloop_detach "$device"
expect_nothing_left

nbdloop_attach --dead-timeout=600 "$image"
server=$(server_pid "$device")
kill -STOP "$server"
spawn reader dd if="$device" of="$dir/read" bs=4096 count=1 iflag=direct
wait_until "a request is in flight" has_request_in_flight "$device"
quietly "$python" "$(dirname "$0")/lose_connections.py" "$server" 1
kill -CONT "$server"
wait_until "the connection is there again" has_connections_again 1
wait_until "the read ends" process_gone "${process_pids[reader]}"
end_process reader
expect_equal "status of the read" 0 "$end_status"
quietly cmp "$image" "$device"
expect_equal "the server" "$server" "$(server_pid "$device")"
# The server has told the guard that it is idle, and then hangs.
guard=$(ps -o ppid= -p "$server" | tr -d ' ')
kill -STOP "$guard"
quietly "$python" "$(dirname "$0")/lose_connections.py" "$server" 1
wait_until "the server has no connection" has_no_connection
kill -STOP "$server"
kill -CONT "$guard"
drop_cache "$device"
quietly cmp "$image" "$device"
[ "$(server_pid "$device")" != "$server" ] || fail "it is the same server"
# The guard watches the next one as before.
server=$(server_pid "$device")
kill -KILL "$server"
drop_cache "$device"
quietly cmp "$image" "$device"
[ "$(server_pid "$device")" != "$server" ] || fail "it is the same server"
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
nbdloop_detach "$device"
expect_nothing_left
