#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Where io_uring is forbidden, as it is in containers, engine=auto serves with aio and says why in
# its start-up line; engine=io_uring refuses to start and says why.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io
image=$dir/disk.img
forbid=$(lib_program forbid_syscall)

falls_back() # ERRNO ITS-TEXT
{
	rm -f "$image"
	truncate -s 16M "$image"
	server_prefix=("$forbid" "io_uring_setup=$1" --)
	start_server -- "$image"
	quietly qemu-io -f raw -c 'write -P 0x31 10001 3000000' -c flush "$uri"
	quietly qemu-io -f raw -c 'read -P 0x31 10001 3000000' "$uri"
	stop_server
	quietly qemu-io -r -f raw -c 'read -P 0x31 10001 3000000' -c 'read -P 0 0 10001' "$image"
	expect_log "disk\.img: .*engine aio \(io_uring: $2"

	refuse_start -- "$image" engine=io_uring
	expect_log "io_uring.*$2"
}

falls_back EPERM 'Operation not permitted'
falls_back ENOSYS 'Function not implemented'
