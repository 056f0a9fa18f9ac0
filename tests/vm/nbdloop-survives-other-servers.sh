#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A device with several connections survives a kill of its server while fio writes and verifies. A
# device of two remote servers continues with the other one each time that the server in use is
# killed. It refuses a server whose export has another size. A device of one server resumes when
# that server is back. Without its guard, the device continues to work, and can be detached.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/killed_servers.sh"

survives 3 --connections 2 --timeout 4

# These servers are not nbdloop's own. Both have the same image all the time, and a killed one is as
# good as fenced.
declare -A ports=([one]=10809 [two]=10810)
serve() # NAME IMAGE
{
	spawn "$1" nbdloopd --port "${ports[$1]}" --lock=shared --direct-io=on "$2"
	wait_until "server $1 is there" "$python" -c "import socket; socket.create_connection(('127.0.0.1', ${ports[$1]})).close()"
}

remote_is() # NAME
{
	[ "$(nbdloop list -n -O REMOTE "$device" | tr -d ' ')" = "127.0.0.1:${ports[$1]}" ]
}

tells_misfit() # REASON
{
	nbdloop status "$device" | grep "trouble: 127.0.0.1:${ports[two]} can't take the device over: .*$1" >/dev/null
}

mark_kernel_log
truncate -s 16M "$dir/remote.img"
truncate -s 8M "$dir/other.img"
serve one "$dir/remote.img"
serve two "$dir/other.img"
both=nbd://127.0.0.1:10809,127.0.0.1:10810
usage_status=2 nbdloop_refuses 'say so with --fenced' attach "$both"
# An export that would be refused is reported before it is needed.
nbdloop_attach --fenced "$both"
wait_until "the status tells that the other server doesn't fit" tells_misfit 'export has 8388608 bytes, and the device 16777216'
nbdloop_detach "$device"
end_process two TERM
serve two "$dir/remote.img"
nbdloop_attach --fenced --timeout 2 --dead-timeout 500 "$both"
remote_is one || fail "the preferred server isn't the first"
start_load --filename="$device" --size=14M --bsrange=4k-64k --iodepth=8
in_use=one
for next in two one two; do
	end_process "$in_use" KILL
	wait_until "server $next is in use" remote_is "$next"
	expect_load
	serve "$in_use" "$dir/remote.img"
	in_use=$next
done
# The guard waits for the export that the device has.
end_process one KILL
serve one "$dir/other.img"
end_process two KILL
sleep 2
remote_is two || fail "an export of another size is taken"
end_process one TERM
serve one "$dir/remote.img"
wait_until "the export is there again" remote_is one
end_load
! grep -E 'verify:|fio: .*error|err=[^ ]*[1-9]' "$dir/load.log" || fail "fio has found an error"
nbdloop_detach "$device"

# Of a single server, too.
nbdloop_attach --timeout 2 nbd://127.0.0.1
dd if=/dev/urandom of="$dir/data" bs=1M count=8 status=none
dd if="$dir/data" of="$device" bs=64k conv=fsync status=none &
writer=$!
sleep 0.5
end_process one KILL
serve one "$dir/remote.img"
wait $writer || fail "writing fails when the remote server was started again"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
quietly cmp -n $((8 << 20)) "$dir/data" "$dir/remote.img"
end_process one TERM
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
expect_nothing_left

# No guard watches the device any more.
nbdloop_attach "$dir/remote.img"
guard=$(control_of "$device")
guard=${guard##*/}
kill -KILL "${guard%.sock}"
quietly cmp -n $((8 << 20)) "$dir/data" "$device"
nbdloop_detach "$device"
expect_nothing_left
