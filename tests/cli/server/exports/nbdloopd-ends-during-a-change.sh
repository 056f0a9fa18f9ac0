#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM ends the server in time while a long change is in progress: the server drains its clients
# at once, waits for the change no longer than for the clients (--drain-limit), and ends at once
# after a second SIGTERM. The status can be read meanwhile.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 16M "$image"

# Each call of fdatasync() takes this many seconds; switching direct I/O on makes two calls.
start_slow() # SECONDS [OPTION...]
{
	local delay=$1
	shift
	rm -f "$dir/called"
	preload slow_sync SLOW_SYNC_SECONDS="$delay" SLOW_SYNC_CALLED="$dir/called"
	start_nbdloopd --direct-io=off --threads=2 --control "$dir/control" "$@" "$image"
}

begin_change()
{
	"$python" "$lib/control.py" "$dir/control" "set direct-io=on" direct_io >"$dir/change.log" 2>&1 </dev/null &
	change=$!
	wait_until "the change is under way" [ -e "$dir/called" ]
}

seconds_since() # START
{
	echo $((($(date +%s%N) - $1) / 1000000000))
}

wait_for_end()
{
	wait_until "the server ends" process_gone "$pid"
	end_process server
	expect_equal status 0 "$end_status"
}

# The connection ends long before the change does; the server waits for the change and answers it.
start_slow 2
begin_change
expect_equal "exports in the status" '""' "\"$(control "$dir/control" status exports.0.name)\""
"$python" -c 'import nbd, os, signal, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pread(512, 0)
os.kill(int(sys.argv[2]), signal.SIGTERM)
start = time.monotonic()
try:
    while True:
        h.pread(512, 0)
        assert time.monotonic() < start + 1.5, "served on"
except nbd.Error:
    pass' "$uri" "$pid" >"$dir/client.log" 2>&1 || fail "the connection is not drained during a change"
wait_for_end
wait "$change" || fail "the client was not answered: $(cat "$dir/change.log")"
expect_equal "answer" true "$(cat "$dir/change.log")"
reject_log 'has not finished'

# The server waits for the change no longer than for clients.
start_slow 15 --drain-limit=2
begin_change
start=$(date +%s%N)
kill -TERM "$pid"
wait_for_end
[ "$(seconds_since "$start")" -lt $((10 * time_factor)) ] || fail "the drain limit is not kept"
expect_log 'warning: a change .* has not finished'
[ ! -e "$dir/server.pid" ] && [ ! -e "$dir/control" ] && [ ! -e "$sock" ] || fail "files are left behind"
wait "$change" || true

# After the second signal the server doesn't wait at all.
start_slow 15
begin_change
start=$(date +%s%N)
kill -TERM "$pid"
wait_until "the server is ending" grep -q 'ending' "$log"
sleep 1
process_gone "$pid" && fail "the change was not waited for"
kill -TERM "$pid"
wait_for_end
[ "$(seconds_since "$start")" -lt $((10 * time_factor)) ] || fail "the second signal is not noticed"
wait "$change" || true
