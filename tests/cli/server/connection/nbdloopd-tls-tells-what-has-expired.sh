#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A list of revoked certificates that is of another authority is refused, at the start and by
# SIGHUP, since it would revoke nothing; and an expired list is told at the start, or when it
# expires.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool
image=$dir/disk.img
pki=$dir/pki
truncate -s 1M "$image"
make_authority "$pki"
make_authority "$dir/other"
make_certificate "$pki" server 'cn = "localhost"\ntls_www_server'
make_certificate "$dir/other" client 'cn = "mallory"\ntls_www_client'

awaits() # REGEX
{
	wait_until "the log says: $1" grep -qE -- "$1" "$log"
}

make_list() # AUTHORITY FILE NEXT-UPDATE
{
	printf 'crl_this_update_date = "2020-01-01 00:00:00"\ncrl_next_update_date = "%s"\ncrl_number = 1\n' "$3" >"$dir/template"
	quietly env TZ=UTC certtool --generate-crl --load-ca-privkey "$1/ca-key.pem" --load-ca-certificate "$1/ca-cert.pem" \
		--load-certificate "$dir/other/client-cert.pem" --template "$dir/template" --outfile "$2"
}

make_list "$dir/other" "$pki/ca-crl.pem" '2099-01-01 00:00:00'
must_fail nbdloopd --unix "$dir/refused.sock" --tls-certificates="$pki" "$image"
grep -q 'ca-crl.pem: the list of revoked certificates is of "CN=.*' "$dir/refused.log" || fail "the list is taken"

# Old already.
make_list "$pki" "$pki/ca-crl.pem" '2020-02-01 00:00:00'
start_nbdloopd --tls-certificates="$pki" "$image"
expect_log 'warning: .*/ca-crl.pem: the list of revoked certificates has expired, on 2020-02-01 00:00:00 UTC'
make_list "$dir/other" "$pki/ca-crl.pem" '2099-01-01 00:00:00'
kill -HUP "$pid"
awaits 'ca-crl.pem: the list of revoked certificates is of .*; TLS goes on with what was read before'
# It expires while the server runs.
soon=$(date -u -d '+3 seconds' '+%F %T')
make_list "$pki" "$pki/ca-crl.pem" "$soon"
kill -HUP "$pid"
awaits 'the certificates and keys of TLS were read again'
awaits "warning: .*/ca-crl.pem: the list of revoked certificates has expired, on $soon UTC"
stop_server
