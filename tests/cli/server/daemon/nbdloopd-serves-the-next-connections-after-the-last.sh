#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that gets its connections over a socket (--fd-from) outlives them: it tells when they
# have ended, and then serves the next ones. While a write of a lost connection is in flight in the
# image, it does neither, so that write can't land on a newer one. It ends when its connections have
# ended and the program has closed the socket.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd

serves() # ENGINE
{
	local gate=$dir/gate image=$dir/slow.img
	truncate -s 4M "$image"
	preload slow_file SLOW_GATE="$gate"
	"$python" "$own_python" "$gate" "$dir/control" "${server_prefix[@]}" "$top_builddir/server/nbdloopd" \
		--engine="$1" --direct-io=off --control "$dir/control" "${nbdloopd_options[@]}" "$image" >"$dir/client.log" 2>&1 ||
		fail "the connections of --fd-from with engine=$1: $(tail -n 1 "$dir/client.log")"
	rm -f "$image" "$gate" "$gate.reached"
}

serves threads
serves aio

says() # WHAT ARGUMENTS...
{
	! "$top_builddir/server/nbdloopd" "${@:2}" "$dir/disk.img" 2>"$dir/refusal" || fail "served: ${*:2}"
	grep -q -- "$1" "$dir/refusal" || fail "${*:2}: $(cat "$dir/refusal")"
}

truncate -s 1M "$dir/disk.img"
says 'file descriptor 99: it is not open' --fd-from=99
says 'file descriptor 9: it is not a socket' --fd-from=9 9</dev/null
