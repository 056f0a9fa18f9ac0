#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server takes records of TLS of any size and in any pieces, ends sessions whose records were
# changed, and carries out nothing that came in them; an honest client on the same thread doesn't
# notice: with the event loop on io_uring, and without.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require_root "looking into a server that has keys"
require_python_nbd
require certtool
image=$dir/disk.img
make_authority "$dir/pki"
make_certificate "$dir/pki" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'

withstands() # EVENT-LOOP
{
	rm -f "$image"
	truncate -s 128M "$image"
	start_nbdloopd --threads=1 --memory=64M --handshake-limit=6 --tls-certificates="$dir/pki" --tls-verify-peer=off "$image"
	"$python" "$own_python" "$sock" "$dir/pki" "$pid" $((128 << 20)) $((64 << 20)) >"$dir/client.log" 2>&1 ||
		fail "TLS with the event loop on $1 does not withstand it"
	expect_log 'disconnected: TLS: '
	[ "$(wc -l <"$log")" -lt 60 ] || fail "the log grows with each hostile client"
	stop_server
}

withstands io_uring
forbid_io_uring
withstands epoll
