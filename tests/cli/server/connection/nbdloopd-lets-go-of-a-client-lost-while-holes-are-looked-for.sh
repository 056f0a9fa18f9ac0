#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A connection that is lost while a helper thread looks for the holes of its read ends when the
# search is over: the connection keeps no descriptor, and the server doesn't wait for it when it
# ends, not even when the search was requested twice meanwhile.
. "$(dirname "$0")/../../../lib/functions.sh"

gate=$dir/gate
image=$dir/slow.img

serve()
{
	rm -f "$image" "$gate" "$gate.reached"
	truncate -s 16M "$image"
	printf 'data' | dd of="$image" bs=1M seek=6 conv=notrunc status=none
	preload slow_file SLOW_GATE="$gate" SLOW_TRANSFERS=no
	start_nbdloopd --engine="$engine" --threads=1 --direct-io=off --control "$dir/control" "$image"
}

# The client closes in the middle of its next request, or waits for the server's end.
read_data() # WHAT-THEN
{
	"$python" - "$sock" "$gate" "$1" <<'EOF2'
import os, sys
from raw_nbd import READ, STRUCTURED_FORM, Raw
from waiting import wait_until
sock, gate, then = sys.argv[1:]
client = Raw(sock, STRUCTURED_FORM)
# Not before: the server looks at the file when a client connects.
open(gate, "x").close()
reached = gate + ".reached"
client.request(READ, 6 << 20, 1 << 20)
if then == "close":
    client.send(b"%")
wait_until("a thread looks for holes", lambda: os.path.exists(reached))
if then == "wait":
    print("waiting", flush=True)
    client.until_end()
EOF2
}

no_connections()
{
	[ "$(control "$dir/control" status connections)" = "[]" ]
}

is_lost()
{
	serve
	read_data close
	rm "$gate"
	wait_until "the connection ends" no_connections
	stop_server
}

stops_twice()
{
	local pid

	serve
	spawn client read_data wait
	wait_until "the holes are looked for" test -s "$gate.reached"
	pid=$(cat "$dir/server.pid")
	kill -TERM "$pid"
	sleep 0.5
	kill -TERM "$pid"
	sleep 0.5
	process_gone "$pid" && fail "the server did not wait for the call"
	rm "$gate"
	wait_until "the server ends" process_gone "$pid"
	end_process server
	end_process client
	expect_equal "the server's status" 0 "$end_status"
}

each_engine is_lost
each_engine stops_twice
