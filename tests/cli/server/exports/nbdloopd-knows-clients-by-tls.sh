#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's rules know clients by what TLS proves: the user of a key, the common name and the
# alternative names of a certificate.  Refusals are logged with it, the status tells it, and
# connections are ended by it.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require_python_nbd
require certtool
for name in own shared common alternative; do
	truncate -s 1M "$dir/$name.img"
done
make_authority "$dir/pki"
make_certificate "$dir/pki" server 'cn = "localhost"\ndns_name = "localhost"\nip_address = "127.0.0.1"\ntls_www_server'
for client in 'backup host' stranger; do
	make_certificate "$dir/pki" client "cn = \"$client\"\ndns_name = \"${client// /.}.example.org\"\ntls_www_client"
	mkdir "$dir/$client"
	mv "$dir/pki/client-cert.pem" "$dir/pki/client-key.pem" "$dir/$client"
	cp "$dir/pki/ca-cert.pem" "$dir/$client"
done
"$python" -c 'import secrets
for user in "alice", "bob", "eve":
    print(f"{user}:{secrets.token_hex(32)}")' >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"

port=$(free_port)
start_nbdloopd --port "$port" --control "$dir/control" --tls=allow --tls-psk "$dir/keys.psk" --tls-certificates "$dir/pki" \
	--export "own=$dir/own.img,allow=psk:alice" \
	--export "shared=$dir/shared.img,allow=psk:alice psk:bob,allow-write=psk:alice" \
	--export "common=$dir/common.img,allow=cn:backup%20host" \
	--export "alternative=$dir/alternative.img,allow=san:dns:backup.host.example.org"
"$python" "$own_python" "$port" "$dir" "$dir/control" >"$dir/check.log" 2>&1 || fail "wrong clients"
expect_log 'warning: (127.0.0.1|\[::1\]):[0-9]* \(psk:bob\): refused: no rule lets this client use the export "own"'
expect_log 'warning: (127.0.0.1|\[::1\]):[0-9]* \(psk:eve\): refused: .* "own"'
expect_log 'warning: (127.0.0.1|\[::1\]):[0-9]* \(cn:backup%20host, san:dns:backup.host.example.org\): refused: .* "shared"'
expect_log 'warning: (127.0.0.1|\[::1\]):[0-9]* \(cn:stranger, san:dns:stranger.example.org\): refused: .* "common"'
expect_log 'warning: (127.0.0.1|\[::1\]):[0-9]*: refused: .* "shared"'
stop_server
