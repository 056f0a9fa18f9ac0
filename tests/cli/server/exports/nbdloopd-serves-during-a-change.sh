#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While a long change is in progress, clients can connect and the status can be read. SIGHUP waits
# for the change: the server reads the configuration afterwards, and nobody waits for that, either.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
truncate -s 16M "$dir/one.img"
truncate -s 1M "$dir/two.img"

printf '%s\n' '[server]' 'threads = 2' '[export one]' "file = $dir/one.img" 'direct-io = off' >"$dir/conf"
preload slow_sync SLOW_SYNC_SECONDS=$((6 * time_factor)) SLOW_SYNC_CALLED="$dir/called"
start_nbdloopd --config "$dir/conf" --control "$dir/control"

# The change makes two calls of fdatasync().
"$python" "$lib/control.py" "$dir/control" "set direct-io=on export=one" direct_io >"$dir/change.log" 2>&1 </dev/null &
change=$!
wait_until "the change is under way" [ -e "$dir/called" ]
printf '%s\n' '[export two]' "file = $dir/two.img" >>"$dir/conf"
kill -HUP "$pid"
for _ in 1 2; do
	expect_equal size 16777216 "$(timeout $((5 * time_factor)) nbdinfo --size "nbd+unix:///one?socket=$sock" 2>>"$dir/nbdinfo.log")"
	expect_equal "direct I/O" false "$(timeout $((5 * time_factor)) "$python" "$lib/control.py" "$dir/control" status exports.0.direct_io)"
	sleep 0.3
done
reject_log 'read again'
process_gone "$change" && fail "the change was over too soon"

wait "$change" || fail "the change failed: $(cat "$dir/change.log")"
expect_equal "direct I/O" true "$(cat "$dir/change.log")"
wait_until "the configuration is read again" grep -q 'read again' "$log"
expect_equal size 1048576 "$(nbdinfo --size "nbd+unix:///two?socket=$sock")"
expect_equal "times that it was read" 1 "$(grep -c 'read again' "$log")"
stop_server
