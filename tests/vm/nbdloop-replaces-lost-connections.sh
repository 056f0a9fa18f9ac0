#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# When one of two connections to nbdloop's own server doesn't answer a request in time, the kernel
# gives that connection up. The program that waits for the request sees no error, and soon the
# device has both connections again.
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

has_both_again()
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$server" ] && [ "$(connections)" = 2 ]
}

expect_equal "connections" 2 "$(connections)"
kill -STOP "$server"
spawn reader dd if="$device" of="$dir/read" bs=4096 count=1 iflag=direct
wait_until "the kernel gives a connection up" given_up
kill -CONT "$server"
wait_until "both connections are there again, to a new server" has_both_again
wait_until "the read ends" process_gone "${process_pids[reader]}"
end_process reader
expect_equal "status of the read" 0 "$end_status"
quietly cmp -n 4096 "$image" "$dir/read"
quietly cmp "$image" "$device"
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
nbdloop_detach "$device"
expect_nothing_left
