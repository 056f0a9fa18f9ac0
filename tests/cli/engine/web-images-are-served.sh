#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Images on web servers are served read-only, with the server's own sandbox; with redirects, any
# kind of validator, TLS, and nginx. What is wrong with an address, or with its server, is a clear
# error at the start.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/certificates.sh"
. "$lib/web.sh"

require nbdcopy certtool
image=$dir/disk.raw
head -c 2500k /dev/urandom >"$image"
web_mode fine
start_web web "$image"
address=http://127.0.0.1:$web_port/disk.raw

serves() # OPTION... ADDRESS
{
	start_nbdloopd -r "$@"
	quietly nbdcopy "$uri" "$dir/copy"
	cmp "$dir/copy" "$image" || fail "other bytes come from ${*: -1}"
	rm "$dir/copy"
	stop_server
}

refuses() # REGEX OPTION... ADDRESS
{
	local regex=$1
	shift
	must_fail nbdloopd -r --unix="$dir/refused.sock" "$@"
	grep -qE -- "$regex" "$dir/refused.log" || fail "the error should match '$regex': $(cat "$dir/refused.log")"
}

# --- what is served

for mode in fine weak date plain slow; do
	web_mode "$mode"
	serves "$address"
	case $mode in
	plain) expect_log 'warning: .*neither an ETag nor a Last-Modified' ;;
	*) reject_log 'warning: .*neither an ETag' ;;
	esac
done
expect_log 'engine libcurl'
expect_log 'sandbox of nbdloop-fetch: process [0-9]+, (user [0-9]+, no new privileges, |none: this build has a sanitizer)'
! grep -q 'no landlock and seccomp' "$log" || fail "such an image costs the server its sandbox"
web_mode "to:http://localhost:$web_port/there.raw"
serves "$address"
# Only the first request is redirected.
expect_equal "redirects" 1 "$(grep -c ' to:' "$dir/web.log")"
web_mode fine

# A part, and several exports at once; without a sandbox, too.
start_nbdloopd -r --sandbox=off --export "a=$address" --export "b=$image" --export "c=$address" --offset=1M
quietly nbdcopy "nbd+unix:///c?socket=$sock" "$dir/copy"
cmp "$dir/copy" <(tail -c +1048577 "$image") || fail "a part is wrong"
stop_server
# Clients can't write.
start_nbdloopd "$address"
expect_log 'read-only \(it is on a web server\)'
stop_server
refuses 'read-only=off is not possible: it is on a web server' --read-only=off "$address"

# --- an export that is added later

require socat
start_nbdloopd --control="$dir/control" --export "a=$image"
echo "add b=$address" | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/answer"
grep -q 'the sandbox does not let nbdloopd start nbdloop-fetch now' "$dir/answer" || fail "answer: $(cat "$dir/answer")"
stop_server
start_nbdloopd -r --control="$dir/control" --export "a=$address"
for command in "remove export=a" "add b=$address" "remove export=b" "add c=$address"; do
	echo "$command" | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/answer"
	grep -q '"error"' "$dir/answer" && fail "$command: $(cat "$dir/answer")"
done
quietly nbdcopy "nbd+unix:///c?socket=$sock" "$dir/copy"
cmp "$dir/copy" "$image" || fail "an export that was added is wrong"
stop_server

# --- what is wrong with a server

refuses_mode() # WORD REGEX
{
	web_mode "$1"
	refuses "$2" "$address"
}
refuses_mode whole 'status 200: it sends the whole file'
refuses_mode 403 'status 403: it forbids to read the file'
refuses_mode 404 'status 404: it has no such file'
refuses_mode 503 'status 503: it is too busy'
refuses_mode 500 'status 500'
refuses_mode elsewhere 'sends bytes 1 to 1 instead of 0 to 0'
refuses_mode unnamed 'does not say which range'
refuses_mode packed 'compressed'
refuses_mode more 'more than was asked for'
refuses_mode less 'less than was asked for|bytes remaining'
refuses_mode endless 'more than was asked for'
refuses_mode headers 'too many headers|Header|header'
refuses_mode reset 'reset|Recv failure|Empty reply'
refuses_mode "to:file:///etc/passwd" 'Protocol "?file"?'
refuses_mode "to:ftp://localhost/disk.raw" 'Protocol "?ftp"?'
refuses_mode "to:$address" 'Maximum .*redirects'
web_mode silent
refuses 'no answer within 2 seconds' --base-timeout=2 "$address"
web_mode fine
truncate -s 0 "$dir/empty"
start_web empty "$dir/empty"
refuses 'status 416: .*empty' "http://127.0.0.1:$web_port/empty"
end_process empty TERM
refuses 'Failed to connect|refused' "http://127.0.0.1:$web_port/gone"
refuses 'resolve host' http://nowhere.invalid/disk.raw
refuses 'has no host' http:///disk.raw
refuses 'a user or password in the web address' http://me:secret@127.0.0.1/disk.raw
! grep -q secret "$dir/refused.log" || fail "the password is in the log"
refuses 'no spaces' "http://127.0.0.1/disk raw"
refuses 'base-timeout is only for images on web servers' --export "file=$image,base-timeout=5"
refuses 'swap' --swap "$address"

# --- TLS

make_authority "$dir/pki"
make_certificate "$dir/pki" good 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'
make_certificate "$dir/pki" other 'cn = "example.org"\ndns_name = "example.org"\ntls_www_server'
printf 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server\nactivation_date = "2020-01-01 00:00:00"\nexpiration_date = "2020-01-03 00:00:00"\n' \
	>"$dir/pki/template"
quietly certtool --generate-certificate --template "$dir/pki/template" --load-privkey "$dir/pki/good-key.pem" \
	--load-ca-certificate "$dir/pki/ca-cert.pem" --load-ca-privkey "$dir/pki/ca-key.pem" --outfile "$dir/pki/old-cert.pem"
cp "$dir/pki/good-key.pem" "$dir/pki/old-key.pem"

with_certificate() # WHO
{
	start_web "tls-$1" "$image" "$dir/pki/$1-cert.pem" "$dir/pki/$1-key.pem"
	address=https://localhost:$web_port/disk.raw
}
with_certificate good
serves --base-ca="$dir/pki/ca-cert.pem" "$address"
refuses 'certificate' "$address"
refuses 'base-ca=.*No such file' --base-ca="$dir/nothing.pem" "$address"
refuses 'certificate|error|CA' --base-ca="$image" "$address"
web_mode "to:http://localhost:$web_port/there.raw"
refuses 'Protocol "?http"?' --base-ca="$dir/pki/ca-cert.pem" "$address"
web_mode fine
with_certificate other
refuses 'certificate' --base-ca="$dir/pki/ca-cert.pem" "$address"
with_certificate old
refuses 'certificate' --base-ca="$dir/pki/ca-cert.pem" "$address"

# --- nginx

command -v nginx >/dev/null || exit 0
mkdir "$dir/nginx"
cat >"$dir/nginx/conf" <<EOF2
daemon off;
pid $dir/nginx/pid;
error_log $dir/nginx.log;
events {}
http {
	access_log off;
	client_body_temp_path $dir/nginx/body;
	proxy_temp_path $dir/nginx/proxy;
	fastcgi_temp_path $dir/nginx/fastcgi;
	uwsgi_temp_path $dir/nginx/uwsgi;
	scgi_temp_path $dir/nginx/scgi;
	server {
		listen unix:$dir/nginx/socket;
		listen 127.0.0.1:$web_port ssl http2;
		ssl_certificate $dir/pki/good-cert.pem;
		ssl_certificate_key $dir/pki/good-key.pem;
		root $dir;
	}
}
EOF2
end_process tls-old TERM
spawn nginx nginx -c "$dir/nginx/conf" -e "$dir/nginx.log"
wait_until "nginx listens" listens "$dir/nginx/socket"
serves --base-ca="$dir/pki/ca-cert.pem" "https://localhost:$web_port/disk.raw"
refuses 'status 404' --base-ca="$dir/pki/ca-cert.pem" "https://localhost:$web_port/nothing.raw"
