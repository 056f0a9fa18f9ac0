#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With TLS, nbdloopd takes nothing in clear: with --tls=require, no option but STARTTLS and ABORT;
# and never a byte between STARTTLS and TLS.  It speaks no TLS older than 1.2.  On io_uring and on
# epoll.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool python3
image=$dir/disk.img
truncate -s 1M "$image"
make_authority "$dir/pki"
make_certificate "$dir/pki" server 'cn = "localhost"\ntls_www_server'

takes_nothing()
{
	local tls
	for tls in require allow; do
		start_nbdloopd --engine="$engine" --tls=$tls --tls-verify-peer=off --tls-certificates="$dir/pki" "$image"
		quietly python3 "$own_python" "$sock" "$([ $tls = allow ] && echo allowed || echo required)"
		expect_log 'disconnected: the client sent data before TLS had begun'
		expect_log 'disconnected: TLS: '
		stop_server
	done
}

each_engine takes_nothing
