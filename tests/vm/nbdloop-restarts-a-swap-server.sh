#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu two processors, for whose threads the server locks memory
# vm: memory 1G
# When the server of a device for swap space dies, another server is started, even if it needs more
# than half of the available memory. A first server would be refused for that. But programs whose
# memory is on that device need the server. All memory of the new server is locked again. A server
# that only loses its connections stays, with its memory.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/swap.img

available_mib()
{
	awk '$1 == "MemAvailable:" {print int($2 / 1024)}' /proc/meminfo
}

locked_mib() # PID
{
	awk '$1 == "VmLck:" {print int($2 / 1024)}' "/proc/$1/status"
}

another_server() # PID
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$1" ]
}

head -c 64M /dev/urandom >"$image"
mark_kernel_log
nbdloop_attach --swap=raise --connections=3 --dead-timeout=600 "$image"
server=$(server_pid "$device")
locked=$(locked_mib "$server")
[ "$locked" -gt 120 ] || fail "the server has locked only $locked MiB"

# The kernel can't reclaim the memory of a file on tmpfs.
mount_at "$dir/memory" -t tmpfs -o size=1G tmpfs
for ((i = 0; i < 100 && $(available_mib) > 90; i++)); do
	head -c 8M /dev/zero >"$dir/memory/$i"
done
[ "$(available_mib)" -le 90 ] || fail "there is still memory: $(available_mib) MiB"
# A first server would lock as much memory, and is refused.
nbdloop_refuses 'MiB would be taken and locked' attach --swap --connections=3 "$(cp "$image" "$dir/other.img" && echo "$dir/other.img")"

quietly "$python" "$(dirname "$0")/lose_connections.py" "$server" 3
quietly dd if="$device" of="$dir/read" bs=1M iflag=direct
quietly cmp "$image" "$dir/read"
expect_equal "the server whose connections were lost" "$server" "$(server_pid "$device")"

kill -KILL "$server"
wait_until "there is another server" another_server "$server"
expect_equal "MiB that the next server has locked" "$locked" "$(locked_mib "$(server_pid "$device")")"
quietly dd if="$device" of="$dir/read" bs=1M iflag=direct
quietly cmp "$image" "$dir/read"
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
nbdloop_detach "$device"
expect_nothing_left
