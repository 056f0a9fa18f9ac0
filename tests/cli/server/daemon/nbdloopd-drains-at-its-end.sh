#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGTERM, nbdloopd accepts no new connection, carries out and answers the requests that it has
# received, closes idle connections, and ends with status 0. Every acknowledged write is in the
# image.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

drains()
{
	rm -f "$image"
	truncate -s 64M "$image"
	start_nbdloopd --engine="$engine" --threads=2 "$image"
	"$python" "$own_python" "$uri" "$pid" "$image" >"$dir/client.log" 2>&1 || fail "wrong end with engine $engine"
	end_process server
	expect_equal "status at the end" 0 "$end_status"
	[ ! -e "$sock" ] || fail "the socket is still there"
	expect_log '^nbdloopd: ending$'
	reject_log 'unanswered'
}

each_engine drains

# A client that doesn't take its replies can't keep the server alive: the server disconnects it
# after the time limit.
dd if=/dev/zero of="$image" bs=8M count=1 conv=notrunc status=none # what it reads, not a hole
start_nbdloopd --drain-limit=1 --control="$dir/control" "$image"
cat >"$dir/deaf.py" <<'EOF2'
import sys, time
import nbd
from client import connect, send_all
from control import wait_for_requests
uri, control = sys.argv[1:]
h = connect(uri)
buffers = [nbd.Buffer(8 << 20) for _ in range(16)]
for buffer in buffers:
    h.aio_pread(buffer, 0)
send_all(h)
wait_for_requests(control, 16)
print("taken", flush=True)
time.sleep(600)
EOF2

be_deaf()
{
	rm -f "$dir/deaf.log"
	spawn deaf "$python" "$dir/deaf.py" "$uri" "$dir/control"
	wait_until "the requests are taken" grep -q taken "$dir/deaf.log"
}

be_deaf
stop_server
expect_log 'requests unanswered'

# The server obeys a second signal at once.
start_nbdloopd --drain-limit=600 --control="$dir/control" "$image"
server_pid=$pid
end_process deaf TERM
be_deaf
kill -TERM "$server_pid"
# Otherwise the two signals would be delivered as one.
wait_until "the first signal is noticed" grep -q ending "$log"
sleep 0.5
process_gone "$server_pid" && fail "it didn't wait for the client"
stop_server
