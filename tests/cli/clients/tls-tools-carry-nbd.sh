#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The clients of the two large TLS libraries, gnutls-cli and openssl s_client, carry NBD to nbdloopd
# and back: TLS 1.3 and 1.2, in records of 16 KiB and of 512 bytes, with a certificate and with a
# key, on each engine.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool gnutls-cli openssl
image=$dir/disk.img
make_authority "$dir/pki"
make_certificate "$dir/pki" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'
make_certificate "$dir/pki" client 'cn = "alice"\ntls_www_client'
"$python" -c 'import secrets; print(f"alice:{secrets.token_hex(32)}")' >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"

carry()
{
	truncate -s 0 "$image"
	truncate -s 8M "$image"
	start_nbdloopd --engine="$engine" --control "$dir/control" --tls-certificates="$dir/pki" --tls-psk="$dir/keys.psk" "$image"
	quietly "$python" "$own_python" "$sock" "$dir/pki" "$dir/keys.psk" "$dir/control"
	stop_server
}

each_engine carry
