#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every write that was acknowledged before the server is killed is in the file afterwards: the
# plugin holds no acknowledged write back.
. "$(dirname "$0")/../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img


client_done()
{
	[ -e "$dir/wanted" ] || process_gone "${process_pids[client]}"
}

survives() # DIRECT-IO PAGE-CACHE
{
	rm -f "$image"
	truncate -s 8M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1" page-cache="$2"
	rm -f "$dir/wanted"
	spawn client "$python" "$own_python" "$uri" "$dir/wanted"
	wait_until "the last write is acknowledged" client_done
	kill_server
	end_process client KILL
	quietly cmp "$image" "$dir/wanted"
}

each_engine survives on auto
each_engine survives off keep
each_engine survives off drop
