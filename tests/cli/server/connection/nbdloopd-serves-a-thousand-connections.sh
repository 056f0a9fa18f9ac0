#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A thousand idle connections take less than 100 KiB each, and all are served; after they have
# closed, and after a thousand more that were dropped at various stages, their descriptors and
# memory are free again.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img

thousand_are_served()
{
	rm -f "$image"
	truncate -s 10M "$image"
	start_nbdloopd --max-connections=1100 --threads=2 --engine="$engine" "$image"
	"$python" "$own_python" "$sock" "$pid" >"$dir/client.log" 2>&1 || fail "a thousand connections are too many"
	stop_server
}

each_engine thousand_are_served
