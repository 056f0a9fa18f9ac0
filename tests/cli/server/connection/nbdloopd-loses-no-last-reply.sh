#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client over TCP gets all of its replies and then the end of file, although it has sent more
# after NBD_CMD_DISC than the server reads. The server doesn't wait for a client that never closes
# its end.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

loses_nothing()
{
	local port
	rm -f "$image"
	truncate -s 1M "$image"
	port=$(free_port)
	start_nbdloopd --engine="$engine" --control "$dir/control" --address=127.0.0.1 --port="$port" "$image"
	"$python" "$own_python" "$port" "$dir/control" >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
	stop_server
}

each_engine loses_nothing
