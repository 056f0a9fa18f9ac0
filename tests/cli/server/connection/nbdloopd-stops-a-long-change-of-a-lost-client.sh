#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server abandons a WRITE_ZEROES of 4 GiB for which it has to write zeroes when the client is
# gone, and when the server was told to end twice.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
forbid=$(lib_program forbid_syscall)

cat >"$dir/client.py" <<'EOP'
import sys, time
from raw_nbd import *

client = Raw(sys.argv[1], SIMPLE)
client.request(WRITE_ZEROES, 0, 0xFFFFF000, NO_HOLE)
time.sleep(600)
EOP

written()
{
	[ "$(blocks_used "$image")" -gt 2048 ]
}

no_client()
{
	[ "$(control "$dir/control" status connections)" = "[]" ]
}

stops() # LOOP WAY ENGINE: fallocate() is forbidden, which io_uring would do by itself
{
	rm -f "$image"
	truncate -s 5G "$image"
	server_prefix=("$forbid" fallocate=ENOSYS)
	test "$1" = io_uring || server_prefix+=(io_uring_setup=EPERM)
	server_prefix+=(--)
	start_nbdloopd --threads=1 --engine="$3" --control "$dir/control" "$image"
	spawn client "$python" "$dir/client.py" "$sock"
	wait_until "something is written" written
	case $2 in
	close)
		end_process client KILL
		wait_until "the server has no client" no_client
		stop_server
		;;
	end)
		kill -TERM "${process_pids[server]}"
		sleep 0.3
		end_process server TERM
		end_process client KILL
		;;
	esac
	[ "$(blocks_used "$image")" -lt $(((4 << 30) / 512 - 100)) ] || fail "all of it was written ($*)"
}

stops io_uring close threads
stops epoll close aio
stops io_uring end threads
