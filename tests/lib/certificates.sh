# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Certificates for TLS, made by certtool (package gnutls-bin); sourced after functions.sh.

# Makes ca-cert.pem and ca-key.pem.
make_authority() # DIRECTORY
{
	mkdir -p "$1"
	printf 'cn = "Test authority"\nca\ncert_signing_key\nexpiration_days = 2\n' >"$1/template"
	quietly certtool --generate-privkey --key-type=ecdsa --outfile "$1/ca-key.pem"
	quietly certtool --generate-self-signed --template "$1/template" \
		--load-privkey "$1/ca-key.pem" --outfile "$1/ca-cert.pem"
}

# Makes WHO-cert.pem and WHO-key.pem in the same directory.
make_certificate() # AUTHORITY WHO TEMPLATE-LINES
{
	printf '%b\nexpiration_days = 2\nsigning_key\nencryption_key\n' "$3" >"$1/template"
	quietly certtool --generate-privkey --key-type=ecdsa --outfile "$1/$2-key.pem"
	quietly certtool --generate-certificate --template "$1/template" \
		--load-privkey "$1/$2-key.pem" --load-ca-certificate "$1/ca-cert.pem" \
		--load-ca-privkey "$1/ca-key.pem" --outfile "$1/$2-cert.pem"
}
