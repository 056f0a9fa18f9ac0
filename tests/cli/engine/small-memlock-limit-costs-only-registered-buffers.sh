#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An unprivileged server that may lock only 64 KiB of memory serves the right data with plain
# buffers, and says so in one line.  With 8 MiB, nbdloopd registers only small buffers, and says
# that when it has a large request.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io setpriv prlimit
require_root "becoming another user"
use_unprivileged_server
image=$dir/disk.img

serves() # LIMIT
{
	rm -f "$image"
	truncate -s 64M "$image"
	chown nobody "$image"
	server_prefix=(prlimit --memlock="$1:$1" "${as_nobody[@]}")
	start_server -- "$image" engine="$engine" control="$dir/control"
	# Several connections send large requests at the same time, so that every context is used.
	spawn one qemu-io -f raw -c 'aio_write -P 0x31 10001 8000000' -c 'aio_write -P 0x32 9M 8M' \
		-c aio_flush "$uri"
	quietly qemu-io -f raw -c 'aio_write -P 0x33 20M 16M' -c 'aio_write -P 0x34 40M 16M' -c aio_flush "$uri"
	end_process one
	expect_equal "status of qemu-io" 0 "$end_status"
	quietly qemu-io -f raw -c 'read -P 0x31 10001 8000000' -c 'read -P 0x32 9M 8M' \
		-c 'read -P 0x33 20M 16M' -c 'read -P 0x34 40M 16M' "$uri"
	expect_equal registered_buffers false "$(control "$dir/control" status exports.0.registered_buffers)"
	reason=
	[ "$engine" != io_uring ] || reason="no more memory may be locked (see ulimit -l)"
	expect_equal registered_buffers_reason "$reason" \
		"$(control "$dir/control" status exports.0.registered_buffers_reason)"
	stop_server
	if [ "$engine" = io_uring ]; then
		expect_equal "lines about the limit" 1 "$(grep -c 'buffers are not registered' "$log")"
	fi
}

each_target serves 65536
servers=nbdloopd
each_target serves 8388608
