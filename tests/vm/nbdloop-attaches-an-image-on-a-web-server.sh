#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `nbdloop attach -r http://HOST/PATH' makes a read-only device of an image on a web server. Its
# server is killed, and another one reads on. While the web server does not answer, reads wait. Then
# they fail, and the device can be detached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

[ -x "$top_builddir/engine/nbdloop-fetch" ] || skip "built without libcurl"
export NBDLOOP_MODULES=$top_builddir/engine
ip link set lo up
head -c 8M /dev/urandom >"$dir/disk.raw"
echo fine >"$dir/mode"
"$python" "$lib/range_server.py" "$dir/disk.raw" "$dir/mode" "$dir/port" >"$dir/web.log" 2>&1 &
web=$!
stop_web()
{
	kill "$web"
}
on_exit stop_web
wait_until "the web server listens" test -e "$dir/port"
address=http://127.0.0.1:$(cat "$dir/port")/disk.raw

usage_status=2 nbdloop_refuses 'swap is not possible' attach --swap "$address"
usage_status=2 nbdloop_refuses '--base-timeout is for images on web servers' attach --base-timeout=5 "$dir/disk.raw"
nbdloop_attach -r --base-timeout=5 "$address"
expect_equal "read-only" 1 "$(blockdev --getro "$device")"
quietly cmp "$dir/disk.raw" "$device"
expect_equal "the image in the list" "$address" "$(nbdloop list -n -O BACK-FILE "$device" | tr -d ' ')"

server_is_another() # PROCESS
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ "$now" != "$1" ]
}

pid=$(server_pid "$device")
kill -KILL "$pid"
wait_until "another server takes over" server_is_another "$pid"
echo 3 >/proc/sys/vm/drop_caches
quietly cmp "$dir/disk.raw" "$device"

# The web server is busy for a while.
echo 503 >"$dir/mode"
echo 3 >/proc/sys/vm/drop_caches
(sleep 2 && echo fine >"$dir/mode") &
quietly cmp "$dir/disk.raw" "$device"
wait $!

# Without -r, the device is read-only, too.
nbdloop_detach "$device"
nbdloop_attach --base-timeout=5 "$address"
expect_equal "read-only" 1 "$(blockdev --getro "$device")"

# Nothing comes any more: reads fail, and the device can be detached.
echo silent >"$dir/mode"
if dd if="$device" of=/dev/null bs=4k count=1 skip=1000 iflag=direct >"$dir/dd.log" 2>&1; then
	fail "the read succeeds"
fi
grep -q 'Input/output error' "$dir/dd.log" || fail "the read fails in another way: $(cat "$dir/dd.log")"
nbdloop_detach "$device"
expect_nothing_left
