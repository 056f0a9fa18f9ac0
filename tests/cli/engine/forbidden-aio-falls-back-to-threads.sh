#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Where both Linux AIO and io_uring are forbidden, engine=auto serves with threads and says why in
# its start-up line; engine=aio refuses to start and says why.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io
image=$dir/disk.img

falls_back() # AIO-CALL=ERRNO ITS-TEXT
{
	rm -f "$image"
	truncate -s 16M "$image"
	forbid_io_uring "$1"
	start_server -- "$image"
	quietly qemu-io -f raw -c 'write -P 0x31 10001 3000000' -c flush "$uri"
	quietly qemu-io -f raw -c 'read -P 0x31 10001 3000000' "$uri"
	stop_server
	quietly qemu-io -r -f raw -c 'read -P 0x31 10001 3000000' -c 'read -P 0 0 10001' "$image"
	expect_log "disk\.img: .*engine threads \(.*aio: $2"

	refuse_start -- "$image" engine=aio
	expect_log "aio.*$2"
}

falls_back io_submit=EPERM 'Operation not permitted'
falls_back io_submit=ENOSYS 'Function not implemented'
falls_back io_setup=EPERM 'Operation not permitted'
falls_back io_setup=ENOSYS 'Function not implemented'
