#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGHUP, nbdloopd opens exports that are new in its configuration and removes those that are
# gone; clients stay connected, even to a removed export, whose image is closed when its last client
# has left. The server says which other changes need a restart; a configuration with an error
# changes nothing.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
truncate -s 1M "$dir/one.img"
truncate -s 2M "$dir/two.img"
truncate -s 3M "$dir/three.img"

configure() # LINE...
{
	printf '%s\n' "$@" >"$dir/conf"
}

reread()
{
	local before
	before=$(grep -cE "read again|stays as it is" "$log") || true
	kill -HUP "$pid"
	wait_until "the configuration was read again" reread_more_than "$before"
}

reread_more_than() # TIMES
{
	[ "$(grep -cE "read again|stays as it is" "$log")" -gt "$1" ]
}

names()
{
	nbdinfo --list "$uri" 2>"$dir/nbdinfo.log" | sed -n 's/^export="\(.*\)":$/\1/p' | paste -sd ' '
}

is_open() # FILE
{
	local link
	for link in /proc/"$pid"/fd/*; do
		[ "$(readlink "$link")" != "$1" ] || return 0
	done
	return 1
}

is_closed()
{
	! is_open "$1"
}

configure '[server]' 'threads = 2' '[export one]' "file = $dir/one.img" '[export two]' "file = $dir/two.img"
start_nbdloopd --config "$dir/conf" --control "$dir/control"
expect_equal names "one two" "$(names)"

# This client stays connected, and reports what it receives.
cat >"$dir/client.py" <<'EOF2'
import nbd, sys
h = nbd.NBD()
h.set_export_name("one")
h.connect_uri(sys.argv[1])
print("connected", flush=True)
for line in sys.stdin:
    h.pwrite(line[:1].encode() * 512, 0)
    assert h.pread(512, 0) == line[:1].encode() * 512
    print("written", line, end="", flush=True)
h.shutdown()
EOF2
mkfifo "$dir/words"
"$python" "$dir/client.py" "nbd+unix:///one?socket=$sock" <"$dir/words" >"$dir/client.log" 2>&1 &
client=$!
exec 3>"$dir/words"
wait_until "the client is connected" grep -q connected "$dir/client.log"

configure '[server]' 'threads = 3' '[export two]' "file = $dir/two.img" 'read-only = on' '[export three]' "file = $dir/three.img"
reread
expect_equal names "two three" "$(names)"
expect_log 'export "one": removed'
expect_log 'export "three": .*three\.img'
expect_log 'warning: threads has changed, which needs a restart'
expect_log 'warning: export "two": read-only has changed, which needs a restart'

configure '[server]' 'threads = 2' '[export two]' "file = $dir/two.img" '[export three]' "file = $dir/three.img" \
	'iops-limit = read:5, write:7, burst:9' 'connections-limit = 3' 'client-bandwidth-limit = 1M' \
	'client-connections-limit = 2'
reread
expect_equal "limits" '{"both": 0, "read": 5, "write": 7, "burst": 9}' "$(control "$dir/control" status exports.1.limits.iops)"
expect_equal "limit of connections" 3 "$(control "$dir/control" status exports.1.limits.connections)"
expect_equal "limits of each client" '{"both": 1048576, "read": 0, "write": 0, "burst": 0}' \
	"$(control "$dir/control" status exports.1.client_limits.bandwidth)"
expect_equal "connections of each client" 2 "$(control "$dir/control" status exports.1.client_limits.connections)"
reject_log 'limit has changed'
# An export that is added later has the default limits of now.
configure '[server]' 'threads = 2' 'iops-limit = 11' 'bandwidth-limit = 8k' 'connections-limit = 4' 'client-iops-limit = 12' \
	'[export two]' "file = $dir/two.img" '[export three]' "file = $dir/three.img"
reread
truncate -s 1M "$dir/four.img"
expect_equal "default limits" '{"iops": {"both": 11, "read": 0, "write": 0, "burst": 0}, "bandwidth": {"both": 8192, "read": 0, "write": 0, "burst": 0}, "connections": 4}' \
	"$(control "$dir/control" "add four=$dir/four.img" limits)"
expect_equal "default limit of each client" 12 "$(control "$dir/control" status exports.2.client_limits.iops.both)"
control "$dir/control" "remove export=four" >/dev/null
echo "a" >&3
wait_until "the client can still write" grep -q 'written a' "$dir/client.log"
is_open "$dir/one.img" || fail "the image was closed under its client"

# A configuration with an error changes nothing.
configure '[export three]' 'file ='
reread
expect_log 'error: .*conf:[0-9]+: the export "three" has no image.*stays as it is'
expect_equal names "two three" "$(names)"

exec 3>&-
wait "$client" || fail "the client failed"
wait_until "the removed image is closed" is_closed "$dir/one.img"

# The export can be added again, and another server could use the image.
configure '[export one]' "file = $dir/one.img"
reread
expect_equal names "one" "$(names)"
wait_until "the removed images are closed" is_closed "$dir/two.img"
is_closed "$dir/three.img" || fail "a removed image is still open"
expect_equal size 1048576 "$(nbdinfo --size "nbd+unix:///one?socket=$sock")"
configure '[export two]' "file = $dir/two.img"
reread
wait_until "an image that had a client before is closed" is_closed "$dir/one.img"
stop_server
