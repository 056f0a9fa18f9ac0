#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that announces a payload of 32 MiB and vanishes leaves memory most of whose pages are not
# there.  The server does not register it with io_uring: while the kernel makes these pages, the
# event loop, and with it all other clients, would stand still for 100 milliseconds.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require_lockable_memory
socket=$dir/control

registers()
{
	rm -f "$dir/disk.img"
	truncate -s 64M "$dir/disk.img"
	start_nbdloopd --threads 1 --engine "$engine" --control "$socket" "$dir/disk.img"
	[ "$engine" != io_uring ] || ! grep -q 'buffers are not registered' "$log" ||
		skip "$(grep 'buffers are not registered' "$log")"
	quietly "$python" "$own_python" "$sock" "$socket" "$engine"
	stop_server
}

each_engine registers
