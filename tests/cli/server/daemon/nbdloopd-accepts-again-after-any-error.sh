#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever error accept() fails with, even one that leaves the connection in the queue as a security
# module's does, the clients wait; the server reports the error once and tries again after a pause,
# on its own sockets and on the control socket.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img control=$dir/control.sock
truncate -s 1M "$image"

waits_for() # ERRNO TEXT
{
	local calls
	start_nbdloopd --threads=1 --control "$control" "$image"
	trace -e trace=accept4 -e inject=accept4:error="$1"
	# At most as many attempts are allowed, for each of the two sockets, as pauses fit into the
	# time that has passed.
	calls=$("$python" - "$sock" "$control" "$dir/calls" <<'EOF2'
import socket, sys, time
begin = time.monotonic()
for path in sys.argv[1:3]:
    socket.socket(socket.AF_UNIX).connect(path)
waiting = [socket.socket(socket.AF_UNIX) for path in sys.argv[1:3]]
for s, path in zip(waiting, sys.argv[1:3]):
    s.connect(path)
time.sleep(1.5)
with open(sys.argv[3]) as calls:
    count = sum("accept4(" in line for line in calls)  # one that was interrupted in the file has two lines
most = (time.monotonic() - begin) * 10 * 2 + 10
print("fine" if count <= most else f"{count} calls, {most:.0f} at most")
EOF2
	)
	untrace
	expect_equal "calls of accept4() with $1" fine "$calls"
	"$python" - "$uri" <<'EOF2' >"$dir/client.log" 2>&1 || fail "no client is served after $1"
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
assert h.pread(512, 0) == bytes(512)
EOF2
	control "$control" status >"$dir/status.json"
	expect_log "error: .*server.sock: cannot accept connections: $2"
	expect_log "error: control socket .*: cannot accept connections: $2"
	expect_equal "messages" 2 "$(grep -c "cannot accept" "$log")"
	stop_server
}

waits_for EPERM "Operation not permitted; they wait"
waits_for EACCES "Permission denied; they wait"
waits_for ECONNABORTED "Software caused connection abort; they wait"
