#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The image of a removed export can be served under another name at once: in one change of the
# configuration, and over the control socket. While clients are still connected to the removed
# export, the new one is refused at once, and the message names that reason.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
truncate -s 1M "$dir/a.img"
config=$dir/conf

configure() # NAME
{
	printf '%s\n' '[server]' 'threads = 2' "[export $1]" "file = $dir/a.img" >"$config"
}

# The limit is a second: the lock's own patience is five.
reread()
{
	local before end=$(($(date +%s%N) + 2000000000 * time_factor))
	before=$(grep -c "read again" "$log") || true
	kill -HUP "$pid"
	wait_until "the configuration was read again" reread_more_than "$before"
	[ "$(date +%s%N)" -lt "$end" ] || fail "it took too long to read the configuration again"
}

reread_more_than() # TIMES
{
	[ "$(grep -c "read again" "$log")" -gt "$1" ]
}

connections() # NUMBER
{
	[ "$(control "$dir/control" status | grep -o '"client":' | wc -l)" = "$1" ]
}

connect() # EXPORT
{
	spawn client "$python" -c 'import nbd, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
print("connected", flush=True)
time.sleep(1000)' "nbd+unix:///$1?socket=$sock"
	pid=${process_pids[server]}
	wait_until "the client is connected" grep -q connected "$dir/client.log"
}

disconnect()
{
	kill_process client
	wait_until "the connection is over" connections 0
}

kill_process() # NAME
{
	end_process "$1" KILL
	pid=${process_pids[server]}
}

configure one
start_nbdloopd --config "$config" --control "$dir/control"

# Workers have had contexts of the image.
for _ in 1 2 3; do
	nbdinfo --size "nbd+unix:///one?socket=$sock" >"$dir/nbdinfo.log" || fail "no client can connect"
done
wait_until "the connections are over" connections 0
configure two
reread
expect_equal size 1048576 "$(nbdinfo --size "nbd+unix:///two?socket=$sock")"
reject_log 'error'

# The same over the control socket.
wait_until "the connections are over" connections 0
for name in three four five; do
	control "$dir/control" "remove export=$(sed -n 's/^\[export \(.*\)\]/\1/p' "$config")" removed >/dev/null
	expect_equal "added export" "$name" "$(control "$dir/control" "add $name=$dir/a.img" name)"
	configure "$name"
done

# Clients are still connected.
connect five
configure six
reread
expect_log 'error: export "six": .*a\.img is still in use: 1 client of the removed export "five" is still connected'
start=$(date +%s%N)
answer=$(control "$dir/control" "add seven=$dir/a.img" error)
[ $(($(date +%s%N) - start)) -lt $((2000000000 * time_factor)) ] || fail "it took too long to refuse"
grep -q '1 client of the removed export "five"' <<<"$answer" || fail "the answer doesn't say why: $answer"
disconnect
reread
expect_equal size 1048576 "$(nbdinfo --size "nbd+unix:///six?socket=$sock")"
stop_server
