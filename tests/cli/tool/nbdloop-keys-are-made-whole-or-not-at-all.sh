#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop keys replaces nothing that it isn't told to replace, shows its keys to nobody, and leaves
# no part of its files when it fails; several at once lose no user.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
cd "$dir"
umask 0

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop keys "$@"
	nbdloop keys "$@" >said.log 2>&1 || true
	grep -qE -- "^nbdloop: .*$wanted" said.log || fail "nbdloop keys $* doesn't say: $wanted, but: $(cat said.log)"
}
is_of_the_past() # FILE
{
	[ "$(stat -c %Y "$1")" -lt "$(date +%s)" ]
}
files()
{
	find "$@" -type d -printf '%P %m\n' -o -printf '%P %m %s %C@\n' | sort
}

# ---- pre-shared keys
nbdloop keys psk keys.psk alice >said.log
expect_equal "mode of keys.psk" 600 "$(stat -c %a keys.psk)"
grep -qxE 'alice:[0-9a-f]{64}' keys.psk || fail "keys.psk has no key of 32 bytes"
before=$(cat keys.psk)
refuses 'keys.psk has a key for alice already: to make a new one, use --replace' psk keys.psk bob alice
for name in '' 'a:b' '#61' $'a\nb' 'a b' $'\xff'; do
	refuses "can't be a user's name" psk keys.psk "$name"
done
refuses 'No such file or directory' psk missing/keys.psk alice
refuses 'is no file' psk . alice
expect_equal "keys after errors" "$before" "$(cat keys.psk)"
for i in 1 2 3 4 5 6 7 8; do
	nbdloop keys psk keys.psk "user$i" >/dev/null &
done
wait
expect_equal "users" 9 "$(cut -d: -f1 keys.psk | sort -u | wc -l)"
# The group of a server that may enter the directory, as of /etc/nbdloopd, reads the server's keys,
# and only those.
if [ "$(id -u)" = 0 ]; then
	install -d -g nogroup -m 750 server
	nbdloop keys psk server/keys.psk alice >said.log
	nbdloop keys certificates server/tls --server=localhost --client=alice >said.log
	expect_equal "group and modes" "keys.psk nogroup 640 tls nogroup 750 tls/alice root 700 tls/ca-key.pem root 600 tls/server-key.pem nogroup 640" \
		"$(cd server && stat -c '%n %G %a' keys.psk tls tls/alice tls/ca-key.pem tls/server-key.pem | xargs)"
	nbdloop keys --replace psk server/keys.psk alice >said.log
	expect_equal "group and mode" "nogroup 640" "$(stat -c '%G %a' server/keys.psk)"
	chmod 755 server
	nbdloop keys psk server/others.psk alice >said.log
	expect_equal "mode in a directory of all users" 600 "$(stat -c %a server/others.psk)"
	rm -r server
fi

# A link stays one, and the file keeps its mode; a last line without its end is not joined.
printf 'old:00' >shared.psk
chmod 640 shared.psk
ln -s shared.psk link.psk
nbdloop keys psk link.psk alice >said.log
[ -L link.psk ] || fail "the link was replaced"
expect_equal "mode of shared.psk" 640 "$(stat -c %a shared.psk)"
expect_equal "lines of shared.psk" "old:00 alice" "$(sed 's/^alice:.*/alice/' shared.psk | xargs)"
# What all users could read is kept from them from now on, and it is said; the group's right stays.
chmod 644 shared.psk
nbdloop keys psk shared.psk bob >said.log 2>warned.log
expect_equal "mode of a file that all could read" 640 "$(stat -c %a shared.psk)"
grep -qx 'nbdloop: warning: .*shared.psk: every user of this machine could use this file (mode 644): its mode is now 640' warned.log ||
	fail "nobody is told that others could read the keys"
nbdloop keys psk shared.psk carol 2>warned.log >said.log
[ ! -s warned.log ] || fail "a file that is closed is warned about: $(cat warned.log)"
# What editors put before a line is not of the name.
printf '\xef\xbb\xbfalice:00\n  bob:00\n' >edited.psk
for name in alice bob; do
	refuses "edited.psk has a key for $name already" psk edited.psk "$name"
done
mkfifo fifo.psk
refuses 'is no file' psk fifo.psk alice

# ---- certificates
# certtool makes them.
mkdir nowhere
must_fail env PATH="$dir/nowhere" "$(command -v nbdloop)" keys certificates pki --server=nas.example
env PATH="$dir/nowhere" "$(command -v nbdloop)" keys certificates pki --server=nas.example >said.log 2>&1 || true
grep -q 'certtool, which is not installed (Debian package: gnutls-bin' said.log || fail "nobody is told what is missing: $(cat said.log)"
expect_equal "files without certtool" "" "$(ls -A pki)"
command -v certtool >/dev/null || skip "there is no certtool (Debian package: gnutls-bin)"
quietly nbdloop keys certificates pki --server=nas.example --client=alice
expect_equal "modes" "700 ca-cert.pem 644 ca-key.pem 600 server-cert.pem 644 server-key.pem 600 alice 700" \
	"$(stat -c '%n %a' pki/*.pem pki/alice | sed 's|^pki/||' | { printf '700 '; xargs; })"
expect_equal "mode of the directory" 700 "$(stat -c %a pki)"
expect_equal "modes for the client" "ca-cert.pem 644 client-cert.pem 644 client-key.pem 600" \
	"$(cd pki/alice && stat -c '%n %a' -- * | xargs)"
before=$(files pki)
refuses 'pki/server-cert.pem is there already: .* use --replace' certificates pki --server=other.example
refuses 'pki/alice/ca-cert.pem is there already' certificates pki --client=bob --client=alice
refuses 'neither a host name nor an address' certificates pki --client=bob --server=a/b
refuses "can't be a client's name" certificates pki --client=../bob
refuses "can't be a client's name" certificates pki --client="$(printf '%065d' 0)"
refuses "can't be a client's name" certificates pki --client='bob"'
refuses "can't be a client's name" certificates pki --client='bob\'
wait_until "the CA is from an earlier second" is_of_the_past pki/ca-cert.pem
refuses 'the CA itself is valid for 364[0-9] more days' certificates pki --client=bob --days=3650
expect_equal "files after errors" "$before" "$(files pki)"
# No room for the last of the files.
[ "$(id -u)" != 0 ] || {
	mkdir small
	mount -t tmpfs -o size=24k,mode=700 tmpfs small
	on_exit umount "$dir/small"
	head -c 8k /dev/zero >small/other
	must_fail nbdloop keys certificates small --server=nas.example --client=alice
	expect_equal "files where there was no room" other "$(ls small)"
}
serial()
{
	certtool -i --infile "$1" | grep 'Serial Number'
}
chmod 664 pki/server-key.pem
nbdloop keys certificates pki --replace --server=nas.example >said.log 2>warned.log
expect_equal "mode of a key that all could read" 660 "$(stat -c %a pki/server-key.pem)"
grep -q 'warning: .*server-key.pem: every user of this machine could use this file (mode 664)' warned.log || fail "no word of the key's mode"
expect_equal "mode of a certificate" 644 "$(stat -c %a pki/server-cert.pem)"
chmod 644 pki/ca-key.pem
nbdloop keys certificates pki --replace --server=nas.example >said.log 2>warned.log
grep -qx 'nbdloop: warning: .*ca-key.pem: every user of this machine can use it (mode 644): chmod o= .*' warned.log ||
	fail "no word of the mode of the authority's key"
chmod 600 pki/ca-key.pem
authority=$(serial pki/ca-cert.pem) server=$(serial pki/server-cert.pem)
nbdloop keys certificates pki --replace --server=nas.example --server=192.0.2.7 >said.log
expect_equal "CA after --replace" "$authority" "$(serial pki/ca-cert.pem)"
[ "$(serial pki/server-cert.pem)" != "$server" ] || fail "--replace made no other certificate"
mv pki/ca-key.pem elsewhere.pem
mkfifo pki/ca-key.pem
refuses 'pki/ca-key.pem: Not a regular file' certificates pki --client=bob
mkdir piped
mkfifo piped/ca-cert.pem
cp elsewhere.pem piped/ca-key.pem
refuses 'piped/ca-cert.pem: Not a regular file' certificates piped --client=bob
rm pki/ca-key.pem
refuses 'pki/ca-key.pem is not there: certificates can only be made in the directory in which' certificates pki --client=bob
nbdloop keys certificates other --client=carol >said.log
cp other/ca-key.pem pki/ca-key.pem
refuses 'pki/ca-key.pem is not the key of pki/ca-cert.pem' certificates pki --client=bob
echo nonsense >pki/ca-key.pem
refuses 'pki/ca-key.pem is no private key' certificates pki --client=bob
[ ! -e pki/bob ] || fail "a directory is left"
rm pki/ca-cert.pem
refuses 'pki/ca-key.pem is there already' certificates pki --replace --client=bob
expect_equal "the authority's key" nonsense "$(cat pki/ca-key.pem)"
# A signal that ends the program, as Ctrl-C does, waits until no draft is left.
mkdir ended
ended() # DIRECTORY COMMAND: what certtool does after the signal
{
	local status=0
	printf '#!/bin/sh\nkill -TERM "$PPID"\n%s\n' "$2" >ended/certtool
	chmod 755 ended/certtool
	certtool=$(command -v certtool) PATH=$dir/ended:$PATH nbdloop keys certificates "$1" --client=dora \
		>said.log 2>&1 || status=$?
	expect_equal "status after a signal" 143 "$status"
}
ended killed 'kill -TERM $$'
expect_equal "files after a signal that ended certtool, too" "" "$(ls -A killed)"
ended whole 'exec "$certtool" "$@"'
expect_equal "files after a signal" "ca-cert.pem ca-key.pem dora" "$(cd whole && echo *)"
expect_equal "directories of drafts" "" "$(find . -name '.nbdloop-keys*')"
