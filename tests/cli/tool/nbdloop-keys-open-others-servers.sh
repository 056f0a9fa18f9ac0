#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The keys and certificates that nbdloop makes are what other programs expect: certtool and openssl
# verify the certificates, and nbdkit and libnbd let each other in with them, and nobody else.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdkit nbdinfo certtool openssl psktool
cd "$dir"

enters() # NBDKIT-OPTION... QUERY
{
	quietly nbdkit -U - --tls=require "${@:1:$#-1}" memory 1M \
		--run "nbdinfo --size \"nbds+unix://${user-}/?socket=\$unixsocket&${!#}\""
}
kept_out()
{
	must_fail nbdkit -U - --tls=require "${@:1:$#-1}" memory 1M \
		--run "nbdinfo --size \"nbds+unix://${user-}/?socket=\$unixsocket&${!#}\""
}

# ---- pre-shared keys, one of them made by another program
quietly psktool -u carol -p keys.psk
expect_equal "file of keys" keys.psk "$(nbdloop keys psk keys.psk alice bob)"
for user in alice@ bob@ carol@; do
	enters --tls-psk=keys.psk tls-psk-file="$dir/keys.psk"
done
cp keys.psk old.psk
nbdloop keys --replace psk keys.psk bob >said.log
user=carol@ enters --tls-psk=keys.psk tls-psk-file="$dir/old.psk"
user=bob@ kept_out --tls-psk=keys.psk tls-psk-file="$dir/old.psk"
user=bob@ enters --tls-psk=keys.psk tls-psk-file="$dir/keys.psk"
expect_equal "users" "alice bob carol" "$(cut -d: -f1 keys.psk | sort | xargs)"
unset user

# ---- certificates
nbdloop keys certificates pki --server=localhost --server=192.0.2.1 --server=2001:db8::1 --client=alice >said.log
# Another client later, by the same CA.
nbdloop keys certificates pki --client='bob of nas' --days=7 >said.log
for certificate in pki/server-cert.pem pki/alice/client-cert.pem "pki/bob of nas/client-cert.pem"; do
	quietly certtool --verify --verify-profile=medium --load-ca-certificate pki/ca-cert.pem --infile "$certificate"
done
quietly openssl verify -x509_strict -purpose sslserver -verify_hostname localhost -CAfile pki/ca-cert.pem pki/server-cert.pem
quietly openssl verify -x509_strict -purpose sslserver -verify_ip 192.0.2.1 -CAfile pki/ca-cert.pem pki/server-cert.pem
quietly openssl verify -x509_strict -purpose sslserver -verify_ip 2001:db8::1 -CAfile pki/ca-cert.pem pki/server-cert.pem
quietly openssl verify -x509_strict -purpose sslclient -CAfile pki/ca-cert.pem pki/alice/client-cert.pem
must_fail openssl verify -purpose sslserver -verify_hostname other -CAfile pki/ca-cert.pem pki/server-cert.pem
must_fail openssl verify -purpose sslserver -CAfile pki/ca-cert.pem pki/alice/client-cert.pem
expect_equal "the client's name" "subject=CN=bob of nas" "$(openssl x509 -noout -subject -nameopt RFC2253 -in "pki/bob of nas/client-cert.pem")"
quietly openssl x509 -noout -checkend $((6 * 86400)) -in "pki/bob of nas/client-cert.pem"
must_fail openssl x509 -noout -checkend $((8 * 86400)) -in "pki/bob of nas/client-cert.pem"
quietly openssl x509 -noout -checkend $((3649 * 86400)) -in pki/server-cert.pem

enters --tls-certificates=pki --tls-verify-peer tls-certificates="$dir/pki/alice"
nbdloop keys certificates stranger --server=localhost --client=alice >said.log
cp pki/ca-cert.pem stranger/alice/ca-cert.pem
kept_out --tls-certificates=pki --tls-verify-peer tls-certificates="$dir/stranger/alice"
