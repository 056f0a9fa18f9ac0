#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With TLS, nbdloopd serves a client that proves who it is, and refuses every other one: the log
# tells why, and the client gets TLS's alert.  New files count from SIGHUP on, unless they are of no
# use; connections go on.
. "$(dirname "$0")/../../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool nbdinfo
image=$dir/disk.img
head -c 1M /dev/urandom >"$image"
pki=$dir/pki
keys=$dir/keys.psk

# Prints the lines of a certificate that was valid from so many days from now on, until so many.
dated() # FROM UNTIL
{
	date -u -d "$1 days" '+activation_date = "%Y-%m-%d %H:%M:%S UTC"'
	date -u -d "$2 days" '+expiration_date = "%Y-%m-%d %H:%M:%S UTC"'
}

# Makes a directory for a client, with the server's authority.
client_directory() # NAME
{
	mkdir -p "$dir/$1"
	cp "$pki/ca-cert.pem" "$dir/$1"
}

certificates()
{
	make_authority "$pki"
	make_certificate "$pki" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'
	client_directory friend
	make_certificate "$pki" client 'cn = "a friend"\nserial = 7\ntls_www_client'
	mv "$pki"/client-*.pem "$dir/friend"
	client_directory nobody
	make_authority "$dir/stranger"
	make_certificate "$dir/stranger" client 'cn = "a stranger"\ntls_www_client'
	cp "$pki/ca-cert.pem" "$dir/stranger"
	client_directory wrong-kind
	make_certificate "$pki" client 'cn = "a server"\ntls_www_server'
	mv "$pki"/client-*.pem "$dir/wrong-kind"
	client_directory expired
	make_certificate "$pki" client "cn = \"late\"\ntls_www_client\n$(dated -3 -1)"
	mv "$pki"/client-*.pem "$dir/expired"
	client_directory early
	make_certificate "$pki" client "cn = \"early\"\ntls_www_client\n$(dated 1 2)"
	mv "$pki"/client-*.pem "$dir/early"
}

serves() # DIRECTORY
{
	quietly nbdinfo --size "nbds+unix://localhost/?socket=$sock&tls-certificates=$dir/$1"
}

# The client gets nothing, and the log has this line after it.
refuses() # URI REASON
{
	: >"$log"
	must_fail nbdinfo --size "$1"
	wait_until "the log says: $2" grep -q "disconnected: $2" "$log"
}

refuses_certificate() # DIRECTORY REASON
{
	refuses "nbds+unix://localhost/?socket=$sock&tls-certificates=$dir/$1" "TLS: $2"
}

certificates
start_nbdloopd --tls=require --tls-certificates="$pki" --control "$dir/control" "$image"
expect_log 'TLS is required for clients, with a certificate$'
serves friend
refuses_certificate nobody 'the client has shown no certificate, .* (tls-verify-peer=off lets in clients without one)'
# Whoever leaves because of that is told, too.
refuses "nbd+unix:///?socket=$sock" 'TLS is required, and the client did not begin it'
refuses_certificate stranger 'The certificate is NOT trusted. The certificate issuer is unknown'
refuses_certificate expired 'The certificate is NOT trusted. .*The certificate chain uses expired certificate'
refuses_certificate early 'The certificate is NOT trusted. .*The certificate chain uses not yet valid certificate'
refuses_certificate wrong-kind 'The certificate is NOT trusted. The certificate chain does not match the intended purpose'

# A client that takes the server for a stranger may just leave.
: >"$log"
quietly "$python" "$own_python" "$sock"
wait_until "the log tells of the client" grep -q "disconnected: TLS: the client left during the handshake: it may not trust" "$log"

# A certificate that has expired, or no certificate at all, replaces none; a list of those that are
# revoked counts at once.
cp "$pki"/server-cert.pem "$dir/kept.pem"
make_certificate "$pki" server "cn = \"localhost\"\ntls_www_server\n$(dated -3 -1)"
: >"$log"
kill -HUP "$pid"
wait_until "the log tells of the old certificate" grep -q 'server-cert.pem: the certificate has expired, .*; TLS goes on with what was read before' "$log"
serves friend
echo nonsense >"$pki/server-cert.pem"
: >"$log"
kill -HUP "$pid"
wait_until "the log tells of nonsense" grep -q 'server-cert.pem: .*; TLS goes on with what was read before' "$log"
serves friend
make_certificate "$pki" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'
# Without the authority's certificate, everybody would be let in.
mv "$pki/ca-cert.pem" "$dir/kept-ca.pem"
: >"$log"
kill -HUP "$pid"
wait_until "the log tells of the missing file" grep -q 'there is no ca-cert.pem, .*; TLS goes on with what was read before' "$log"
refuses_certificate nobody 'the client has shown no certificate'
mv "$dir/kept-ca.pem" "$pki/ca-cert.pem"
printf 'expiration_days = 2\ncrl_next_update = 2\ncrl_number = 1\n' >"$pki/template"
quietly certtool --generate-crl --load-ca-privkey "$pki/ca-key.pem" --load-ca-certificate "$pki/ca-cert.pem" \
	--load-certificate "$dir/friend/client-cert.pem" --template "$pki/template" --outfile "$pki/ca-crl.pem"
: >"$log"
kill -HUP "$pid"
wait_until "the files are read again" grep -q 'TLS were read again' "$log"
refuses_certificate friend 'The certificate is NOT trusted. The certificate chain is revoked'
# Without that list, who was revoked would be let in again.
rm "$pki/ca-crl.pem"
: >"$log"
kill -HUP "$pid"
wait_until "the log tells of the missing list" grep -q 'there is no ca-crl.pem, .*; TLS goes on with what was read before' "$log"
refuses_certificate friend 'The certificate is NOT trusted. The certificate chain is revoked'
stop_server

# Keys.  The client can't tell an unknown user from a wrong key.
key=000102030405060708090a0b0c0d0e0f
echo "alice:$key" >"$keys"
echo "alice:${key}00" >"$dir/wrong.psk"
echo "bob:$key" >"$dir/bob.psk"
port=$(free_port)
start_nbdloopd --address=127.0.0.1 --port="$port" --tls-psk="$keys" "$image"
expect_log 'TLS is required for clients, with a key; on unix sockets, it is possible .tls=require requires it there.$'
quietly nbdinfo --size "nbds+unix://alice@/?socket=$sock&tls-psk-file=$keys"
refuses "nbds+unix://alice@/?socket=$sock&tls-psk-file=$dir/wrong.psk" 'TLS: the key is wrong'
refuses "nbds+unix://bob@/?socket=$sock&tls-psk-file=$dir/bob.psk" 'TLS: the user "bob" is unknown'
! grep -q "$key" "$log" || fail "the log has the key"

# Without tls=require, clients on unix sockets may do without TLS, and others may not.
quietly nbdinfo --size "nbd+unix:///?socket=$sock"
quietly nbdinfo --size "nbds://alice@127.0.0.1:$port/?tls-psk-file=$keys"
refuses "nbd://127.0.0.1:$port/" 'TLS is required, and the client did not begin it'
stop_server
