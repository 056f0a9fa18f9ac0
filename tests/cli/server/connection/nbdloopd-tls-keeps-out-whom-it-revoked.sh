#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that is in the middle of its TLS handshake when its certificate is revoked is not let in:
# a request to disconnect it would not have found it.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool python3
image=$dir/disk.img
pki=$dir/pki
truncate -s 1M "$image"
make_authority "$pki"
make_certificate "$pki" server 'cn = "localhost"\ntls_www_server'
make_certificate "$pki" client 'cn = "mallory"\ntls_www_client'
mkdir "$dir/client"
mv "$pki"/client-*.pem "$dir/client"
printf 'expiration_days = 2\ncrl_next_update = 2\ncrl_number = 1\n' >"$pki/template"
quietly certtool --generate-crl --load-ca-privkey "$pki/ca-key.pem" --load-ca-certificate "$pki/ca-cert.pem" \
	--load-certificate "$dir/client/client-cert.pem" --template "$pki/template" --outfile "$dir/ca-crl.pem"

start_nbdloopd --handshake-limit=600 --control "$dir/control" --tls-certificates="$pki" "$image"
export sock pid log
quietly python3 "$own_python" "$dir"
expect_log 'disconnected: TLS: .* changed during the handshake'
stop_server
