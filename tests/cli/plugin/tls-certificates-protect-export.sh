#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Over a network with TLS and certificates, a client with a certificate gets the right data; a
# client without TLS, without a certificate, or with somebody else's gets nothing.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/network.sh"
. "$lib/certificates.sh"

require certtool nbdcopy nbdinfo
connect_two_networks
image=$dir/disk.img
head -c 8M /dev/urandom >"$image"

pki=$dir/pki
make_authority "$pki"
make_certificate "$pki" server "cn = \"$server_address\"\nip_address = \"$server_address\"\ntls_www_server"
make_certificate "$pki" client 'cn = "a client"\ntls_www_client'
make_authority "$dir/stranger"
make_certificate "$dir/stranger" client 'cn = "a stranger"\ntls_www_client'
cp "$pki/ca-cert.pem" "$dir/stranger/ca-cert.pem"
mkdir "$dir/nobody"
cp "$pki/ca-cert.pem" "$dir/nobody"

protects()
{
	start_server --tls=require --tls-certificates="$pki" --tls-verify-peer -- \
		"$image" engine="$engine"
	quietly "${client[@]}" nbdcopy "nbds://$server_address/?tls-certificates=$pki" "$dir/copy"
	quietly cmp "$image" "$dir/copy"
	must_fail "${client[@]}" nbdinfo "nbd://$server_address/"
	must_fail "${client[@]}" nbdinfo "nbds://$server_address/?tls-certificates=$dir/stranger"
	must_fail "${client[@]}" nbdinfo "nbds://$server_address/?tls-certificates=$dir/nobody"
	stop_server
}

each_engine protects
