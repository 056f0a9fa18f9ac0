#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While the file system of an image does not tell its size, clients that connect, to this image or
# another one, wait for a moment only, and are told the last known size; the configuration can be
# read again. A client that has left meanwhile harms nobody. When the file system answers, new
# clients are told the present size.
. "$(dirname "$0")/../../../lib/functions.sh"

require nbdinfo
gate=$dir/gate
truncate -s 1M "$dir/slow.img" "$dir/quick.img"
preload slow_file SLOW_GATE="$gate" SLOW_TRANSFERS=no
start_nbdloopd --export "slow=$dir/slow.img,changes=none" --export "quick=$dir/quick.img,changes=none"
server_prefix=()

size_of() # EXPORT
{
	timeout $((20 * time_factor)) nbdinfo --size "nbd+unix:///$1?socket=$sock" || fail "no client can connect to $1"
}

expect_equal "size at first" 1048576 "$(size_of slow)"
truncate -s 2M "$dir/slow.img" "$dir/quick.img"
touch "$gate"
spawn waiting nbdinfo --size "nbd+unix:///slow?socket=$sock"
wait_until "somebody looks at the image" test -s "$gate.reached"
end_process waiting KILL
for export in slow quick slow quick; do
	expect_equal "size while the file system does not answer" 1048576 "$(size_of $export)"
done
expect_log 'the file system of an image does not answer'
kill -HUP "${process_pids[server]}"
wait_until "the configuration is read again" grep -q 'the configuration was read again' "$log"

rm "$gate"
has_size() { [ "$(size_of "$1")" = 2097152 ]; }
for export in slow quick; do
	wait_until "the present size of $export is told" has_size "$export"
done
stop_server
