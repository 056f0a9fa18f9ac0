#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One nbdloopd listens on IPv4, IPv6 and several unix sockets; by default, on the local machine
# only. Its unix sockets have the mode that the umask leaves, replace dead sockets, leave the
# sockets of others alone, and are removed when the server ends.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 3M "$image"
port=$(free_port)
has_ipv6=no
"$python" -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null && has_ipv6=yes

serves() # URI
{
	expect_equal "size at $1" 3145728 "$(nbdinfo --size "$1" 2>"$dir/nbdinfo.log")"
}

umask 027
start_nbdloopd --lock=off --port "$port" --unix "$dir/second.sock" "$image"
expect_log "listening on $sock\$"
expect_log "listening on $dir/second.sock\$"
expect_log "listening on 127\.0\.0\.1:$port\$"
serves "$uri"
serves "nbd+unix:///?socket=$dir/second.sock"
serves "nbd://127.0.0.1:$port"
if [ $has_ipv6 = yes ]; then
	expect_log "listening on \[::1\]:$port\$"
	serves "nbd://[::1]:$port"
fi
expect_equal "mode of the socket" 750 "$(stat -c %a "$sock")"

# Another server leaves the socket alone.
server=second refuse_nbdloopd 1 -U "$sock" --lock=off "$image"
log=$dir/second.log expect_log 'another server listens there'
server=second refuse_nbdloopd 1 --port "$port" --lock=off "$image"
log=$dir/second.log expect_log "127\.0\.0\.1:$port: Address already in use; choose another port"
serves "$uri"

# The server can be restarted at once, after a clean end and after a crash.
stop_server
[ ! -e "$sock" ] || fail "the socket is still there"
start_nbdloopd --port "$port" "$image"
kill_server
[ -S "$sock" ] || fail "a killed server cannot have removed its socket"
start_nbdloopd --port "$port" "$image"
serves "$uri"
stop_server

echo precious >"$dir/file"
refuse_nbdloopd 1 -U "$dir/file" "$image"
expect_log 'is not a socket'
expect_equal "the file" precious "$(cat "$dir/file")"

# Listen on every network, and then on one of them.
# Without TLS, only if the user says so.
refuse_nbdloopd 2 --address any --port "$port" "$image"
expect_log "other machines can reach 0\.0\.0\.0:$port, .* --tls=off"
start_nbdloopd --address any --port "$port" --tls=off "$image"
expect_log "listening on 0\.0\.0\.0:$port\$"
serves "nbd://127.0.0.1:$port"
stop_server
start_nbdloopd --address 127.0.0.2 --port "$port" "$image"
expect_log "listening on 127\.0\.0\.2:$port\$"
reject_log 'listening on .*127\.0\.0\.1'
serves "nbd://127.0.0.2:$port"
stop_server

# An address that comes again has its socket already, and that of all networks takes the place of
# others.
start_nbdloopd --address 127.0.0.1 --address '[127.0.0.1]' --address localhost --port "$port" "$image"
expect_equal "sockets of 127.0.0.1" 1 "$(grep -c "listening on 127\.0\.0\.1:$port\$" "$log")"
serves "nbd://127.0.0.1:$port"
stop_server
for order in "127.0.0.1 any" "any 127.0.0.1 0.0.0.0"; do
	# shellcheck disable=SC2046 # words
	start_nbdloopd $(printf -- '--address %s ' $order) --port "$port" --tls=off "$image"
	expect_equal "IPv4 sockets of $order" 1 "$(grep -cE "listening on [0-9.]+:$port\$" "$log")"
	expect_log "listening on 0\.0\.0\.0:$port\$"
	serves "nbd://127.0.0.1:$port"
	stop_server
done

[ $has_ipv6 = yes ] || skip "no IPv6 here; the others passed"
