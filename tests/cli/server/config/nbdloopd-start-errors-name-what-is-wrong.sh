#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An nbdloopd that cannot start names the mistake and the remedy. It exits with status 2 when its
# command line is wrong, and with 1 when something else is wrong.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
socket=$dir/other.sock
truncate -s 1M "$image"

# Arguments: what the message must contain; then the server's arguments.
says() # STATUS REGEX... -- ARGUMENT...
{
	local status=$1 wanted=() regex
	shift
	while [ "$1" != -- ]; do
		wanted+=("$1")
		shift
	done
	shift
	refuse_nbdloopd "$status" "$@"
	for regex in "${wanted[@]}"; do
		expect_log "$regex"
	done
	reject_log 'listening'
}

says 2 'no image' '--export' '--config' --
says 2 'one image too many: b' '--export' -- a b
says 2 'option --colour' -- --colour "$image"
says 2 'option -x' -- -x "$image"
says 2 '--port needs a value' -- --port
says 2 '--port=0' '1 to 65535' -- --port=0 "$image"
says 2 '--sector-size=700' '512, 1024, 2048' -- --sector-size=700 "$image"
says 2 '--threads=many' 'whole number' -- --threads=many "$image"
says 2 '--memory=1M' '32M' -- --memory=1M "$image"
says 2 '--log=paper' 'stderr, syslog' -- --log=paper "$image"
says 2 '--contexts' -- --contexts=4 "$image"
says 2 '--export disk' 'NAME=PATH' -- --export disk
says 2 'export "a" has no image' -- --export a=
says 2 'colour' -- --export "a=$image,colour=blue"
says 2 'depth=0' '1 to 1024' -- --export "a=$image,depth=0"
says 2 'export "": allow: user:x-x-x: there is no user' -- --allow user:x-x-x "$image"
says 2 'export "a": allow-write: net:10.0.0.1/8' 'net:10.0.0.0/8' -- --export "a=$image,allow-write=uid:0 net:10.0.0.1/8"
says 2 'export "a": allow=psk:alice: no client .*needs tls-psk' -- --export "a=$image,allow=psk:alice"
says 2 'export "a": iops-limit=fast: must be operations per second' 'burst' 'no limit' -- --export "a=$image,iops-limit=fast"
says 2 'export "": bandwidth-limit=100: must be bytes per second, at least 4k' -- --bandwidth-limit=100 "$image"
says 2 'export "a": client-iops-limit=fast: must be operations per second' -- --export "a=$image,client-iops-limit=fast"
says 2 'export "a": client-bandwidth-limit=100: must be bytes per second' -- --client-bandwidth-limit=100 --export "a=$image"
says 2 'export "a": iops-limit=burst:5: must be' -- --iops-limit=burst:5 --export "a=$image"
says 2 'connections-limit=-1' -- --export "a=$image,connections-limit=-1"
says 2 '"write:5" is not OPTION=VALUE' 'comma twice' -- --export "a=$image,iops-limit=read:5,write:5"
says 2 '"b.img" is not OPTION=VALUE' 'comma twice' -- --export "a=$dir/a,b.img"
says 2 'two exports named "a"' -- --export "a=$image" --export "a=$image"
says 2 'tls-verify-peer=on needs certificates' -- --tls-verify-peer=on "$image"
says 2 'tls-kernel=on needs certificates .* or keys .*there is no TLS' -- --tls-kernel=on "$image"
says 2 'tls-priority=STRING needs certificates' -- --tls-priority=NORMAL "$image"
says 2 'ceph-conf is only for images in Ceph \(rbd:POOL/IMAGE\), not for .*disk\.img' -- --export "a=$image,ceph-conf=/x"
says 2 'ceph-user is only for images in Ceph .*, not for .*disk\.img' -- --ceph-user=a --export "a=$image,ceph-user=b" --export b=rbd:rbd/b
# A default may be for only some of the exports.
says 1 'rbd:rbd/b: ' -- --ceph-conf="$dir/nowhere" --export "a=$image" --export b=rbd:rbd/b

says 1 'missing.img: No such file' -- "$dir/missing.img"
says 1 'regular file|block device' -- /dev/null
says 1 'offset=2000000' '1048576' -- --offset=2000000 "$image"
says 1 "export \"b\": $image is the same image as that of the export \"a\"" 'lock=shared' -- \
	--export "a=$image" --export "b=$image"
says 1 'nowhere/socket' 'No such file' -- -U "$dir/nowhere/socket" "$image"
says 1 'control socket' 'No such file' -- -U "$socket" --control "$dir/nowhere/socket" "$image"
says 1 'pid file' 'No such file' -- -U "$socket" -P "$dir/nowhere/pid" "$image"
says 1 '--user=nobody-here' 'no such user' -- -U "$socket" --user nobody-here "$image"
says 2 '--fd=x' 'number' -- --fd x "$image"
says 1 'descriptor 77: it is not open' -- --fd 77 "$image"
says 1 'descriptor 0: it is not a socket' -- --fd 0 "$image"
for use in --fd=05 --notify-fd=5; do
	"$python" -c 'import os, socket, sys
ours, its = socket.socketpair()
os.dup2(its.fileno(), 5)
os.set_inheritable(5, True) # dup2() does so only if it was another number
os.execvp("nbdloopd", ["nbdloopd", "--fd", "5", *sys.argv[1:]])' "$use" "$image" >"$dir/twice$use.log" 2>&1 </dev/null &&
		fail "a descriptor was taken twice"
done
grep -q -- '--fd=5: it is given twice' "$dir/twice--fd=05.log" || fail "not said that a descriptor is given twice"
grep -q -- 'notify-fd=5: it has another use' "$dir/twice--notify-fd=5.log" ||
	fail "not said that the descriptor of the events is a connection"
says 1 'notify-fd=77' 'not open' -- --notify-fd 77 -U "$socket" "$image"
says 1 'socket-activation=on' 'LISTEN_FDS' -- --socket-activation=on "$image"
says 1 'address=no such name' -- --address 'no such name' "$image"
says 1 '192.0.2.1:10809' -- --address 192.0.2.1 "$image"
[ ! -e "$socket" ] || fail "a server that refused left its socket behind"

# Errors in the configuration file name the line.
config=$dir/nbdloopd.conf
config_says() # REGEX... -- LINE...
{
	local wanted=()
	while [ "$1" != -- ]; do
		wanted+=("$1")
		shift
	done
	shift
	printf '%s\n' "$@" >"$config"
	says 2 "${wanted[@]}" -- --config "$config"
}

says 2 'configuration file .*/none: No such file or directory; to begin with an example: cp .*/nbdloopd.conf .*/none$' -- --config "$dir/none"
config_says 'no image' -- '# nothing'
config_says 'conf:1: a section must come first' -- 'threads = 2'
config_says 'conf:2: .*neither' -- '[server]' 'threads'
config_says 'conf:2: .*neither' -- $'\xef\xbb\xbf[server]' 'threads'
config_says 'conf:1: .*\[server\] or \[export NAME\]' -- '[server'
config_says 'conf:2: unknown section \[disk\]' -- '# a comment' '[disk]' 'file = x'
config_says 'conf:3: unknown option colour' -- '[server]' '; a comment' 'colour = blue'
config_says 'conf:2: file belongs in a section \[export NAME\]' -- '[server]' "file = $image"
config_says 'conf:3: threads belongs in the section \[server\]' -- '[export a]' "file = $image" 'threads = 2'
config_says 'conf:3: threads is already set in line 2' -- '[server]' 'threads = 2' 'threads = 3'
config_says 'conf:2: threads=two: must be a whole number' -- '[server]' 'threads = two'
config_says 'conf:3: there are two exports named "a"' -- '[export a]' "file = $image" '[export a]' "file = $image"
config_says 'export "a" has no image: file=PATH' -- '[export a]' 'read-only = on'
printf '[server]\0' >"$config"
says 2 'not a text file' -- --config "$config"
