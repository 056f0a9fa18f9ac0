#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# QEMU and its tools cannot write to an image that is served read-write; they can read, but not
# write, an image that is served read-only; with lock=off they may do both.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io qemu-img
image=$dir/disk.img
truncate -s 16M "$image"
truncate -s 16M "$dir/other"

expect_writers_refused()
{
	must_fail qemu-io -f raw -c 'write -P 1 0 4096' "$image"
	grep -q 'lock' "$dir/refused.log" || fail "qemu-io was refused for another reason than the lock"
	must_fail qemu-img convert -n -f raw -O raw "$dir/other" "$image"
	must_fail qemu-img resize -f raw "$image" 32M
	quietly cmp "$image" "$dir/other"
}

expect_readers_welcome()
{
	quietly qemu-io -r -f raw -c 'read -P 0 0 4096' "$image"
	quietly qemu-img info "$image"
}

start_server -- "$image"
connect_once
expect_writers_refused
stop_server
quietly qemu-io -f raw -c 'read -P 0 0 4096' "$image"

start_server -r -- "$image"
connect_once
expect_writers_refused
expect_readers_welcome
stop_server

start_server -- "$image" lock=off
connect_once
expect_readers_welcome
quietly qemu-io -f raw -c 'write -P 1 0 4096' "$image"
stop_server
