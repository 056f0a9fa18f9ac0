#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of an attached device is killed 20 times while fio writes and verifies in a file system
# on it: there is no error, no write is lost, and each time another server takes over. A request
# that was in flight is repeated within seconds, with one connection and with several. With several,
# the kernel gives a slow request's connections up, but only once: then it waits longer.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/killed_servers.sh"

survives 20

truncate -s 64M "$image"
nbdloop_attach "$image"
pid=$(server_pid "$device")
expect_request_soon_repeated "$pid" kill -KILL "$pid"
nbdloop_detach "$device"

given_up()
{
	[ "$(kernel_log | grep -c 'timed out, retrying')" -gt "$1" ]
}

nbdloop_attach --connections=4 "$image"
server=$(server_pid "$device")
expect_request_soon_repeated "$server" kill -KILL "$server"
server=$(server_pid "$device")
before=$(kernel_log | grep -c 'timed out, retrying') || true
kill -STOP "$server"
spawn writer dd if=/dev/urandom of="$device" bs=4096 count=1 oflag=direct
wait_until "the kernel gives the request's connection up" given_up "$before"
kill -CONT "$server"
wait_until "the write ends" process_gone "${process_pids[writer]}"
end_process writer
expect_equal "status of the write" 0 "$end_status"
wait_until "all connections are there again" has_connections_again 4
before=$(kernel_log | grep -c 'timed out, retrying')
kill -STOP "$server"
spawn reader dd if="$device" of="$dir/read" bs=4096 count=1 iflag=direct
sleep 8
kill -CONT "$server"
wait_until "the read ends" process_gone "${process_pids[reader]}"
end_process reader
expect_equal "status of the read" 0 "$end_status"
expect_equal "connections given up" "$before" "$(kernel_log | grep -c 'timed out, retrying')"
expect_equal "the server" "$server" "$(server_pid "$device")"
nbdloop_detach "$device"
expect_nothing_left
