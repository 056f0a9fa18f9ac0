#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop check succeeds only if a read does: not if the server hangs, refuses the export, reports
# an error for the read, or is gone; of several servers, all must answer.  It needs neither an nbd
# driver nor TLS in the kernel, and not root.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
image=$dir/disk.img
truncate -s 1M "$image"

fails() # REGEX ARGUMENT...
{
	local wanted=$1 status=0
	shift
	timeout $((40 * time_factor)) nbdloop check "$@" >"$dir/said.out" 2>"$dir/said.log" </dev/null || status=$?
	expect_equal "status of nbdloop check $*" 1 "$status"
	grep -qE -- "^nbdloop: $wanted" "$dir/said.log" || fail "nbdloop check $* doesn't say: $wanted"
}

start_nbdloopd --export "disk=$image"
there="nbd+unix:///disk?socket=$sock"
quietly nbdloop check "$there"
fails '.*: the server has no export "other"' "nbd+unix:///other?socket=$sock"
truncate -s 0 "$image"
# By TCP, it would be the export of another server.
fails '.*: socket is for unix sockets: nbd\+unix:///' "nbd:///disk?socket=$sock"
fails '.*: the read failed: the server reports error 5' "$there"
truncate -s 1M "$image"
kill -STOP "$pid"
fails ".*the server hasn't answered for 1 seconds" --timeout 1 "$there"
kill -CONT "$pid"
quietly nbdloop check "$there"
stop_server
fails '.*: (No such file or directory|Connection refused)' "$there"

# Two servers, of which one has an empty export, which has nothing to read; and the other one is
# gone.
"$python" - >"$dir/ports" <<'END'
import socket
all = [socket.create_server(("127.0.0.1", 0)) for i in range(2)]
print(*[s.getsockname()[1] for s in all])
END
read -r here gone <"$dir/ports"
: >"$dir/empty.img"
spawn empty nbdloopd --port "$here" "$dir/empty.img"
wait_until "it answers" eval "nbdloop check nbd://127.0.0.1:$here 2>/dev/null"
fails "nbd://127.0.0.1:$gone: Connection refused" "nbd://127.0.0.1:$here,127.0.0.1:$gone"

# The handshake is answered, the read isn't.
require nbdkit
rm -f "$sock"
spawn slow nbdkit -f -U "$sock" --filter=delay memory 1M rdelay=600
wait_until "nbdkit listens" listens "$sock"
fails '.*: the read was not answered in time' --timeout 1 "nbd+unix:///?socket=$sock"
end_process slow KILL

# TLS, which needs nothing of the kernel.
if nbdloop keys --server=localhost --client=alice certificates "$dir/pki" >"$dir/keys.log" 2>&1; then
	rm -f "$sock"
	spawn secret nbdkit -f -U "$sock" --tls=require --tls-verify-peer --tls-certificates="$dir/pki" memory 1M
	wait_until "nbdkit listens" listens "$sock"
	there="nbds+unix:///?socket=$sock"
	quietly nbdloop check "$there&tls-certificates=$dir/pki/alice"
	fails '.*: (TLS: |the server closed the connection in the TLS handshake)' "$there&tls-certificates=$dir/pki"
	end_process secret TERM
	port=$(free_port)
	start_nbdloopd --port "$port" --tls-certificates "$dir/pki" "$image"
	quietly nbdloop check "nbds://localhost:$port/?tls-certificates=$dir/pki/alice"
	stop_server
fi

# Not root.
[ "$(id -u)" = 0 ] || exit 0
rm -f "$sock"
start_nbdloopd --export "disk=$image"
chmod 666 "$sock"
use_unprivileged_server
"${as_nobody[@]}" "$top_builddir/tool/nbdloop" check "nbd+unix:///disk?socket=$sock" >"$dir/said.log" 2>&1 || fail "only root can check"
