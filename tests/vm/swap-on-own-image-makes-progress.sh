#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Swap space on an image that the same machine serves, with swap=on: programs that need much more memory than
# there is, and the kernel that takes back from the server whatever it can, go on, and find in their memory
# what they put there.
#
# A server that can be swapped out is swapped out to its own disk here, and nobody ever brings it back.  One
# whose threads' buffers aren't there beforehand looks for memory for ever while nobody reads the requests that
# would free some.  And one that may not have the last of the memory, as real-time threads may, waits for ever for
# a bio, of which the writes to the swap device, which wait for the server, have the reserve.
#
# The image has been written from end to end, and its file system keeps times of files in memory: else writes are
# transactions of the file system too, which may wait for memory.
# vm: memory 384M
# vm: disk 2G
# vm: limit 400
# vm: kernel cgroup_no_v1=all
. "$(dirname "$0")/functions.sh"

image=$dir/swap.img
socket=$dir/control
group=/sys/fs/cgroup/server
hog=$(dirname "$0")/memory_hog.py

# Pages, since the start.
vmstat() # NAME
{
	awk -v name="$1" '$1 == name {print $2}' /proc/vmstat
}

# The threads of the server that PR_SET_IO_FLUSHER does not hold for: 0x80000 is PF_MEMALLOC_NOIO, 0x100000
# PF_LOCAL_THROTTLE, in field 9 of stat.  io_uring's own threads (iou-wrk-PID) are among them.
other_threads() # PID
{
	local stat flags
	for stat in "/proc/$1/task"/*/stat; do
		flags=$(sed 's/.*) //' "$stat" | cut -d ' ' -f 7) || continue
		[ $((flags & 0x180000)) -eq $((0x180000)) ] || sed 's/^[0-9]* (\(.*\)) .*/\1/' "$stat"
	done
}

# Asks the kernel to take all that it can from the server, again and again.
squeeze()
{
	while sleep 2; do
		echo 64M >"$group/memory.reclaim" || true
	done 2>"$dir/squeeze.log"
}

quietly mount -o remount,lazytime "$(findmnt --noheadings --output TARGET --target "$dir")"
mkdir -p /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$group"
on_exit rmdir "$group"
[ -e "$group/memory.reclaim" ] || skip "this kernel has no memory.reclaim"

swaps() # ENGINE
{
	local out in options=(-t 8)
	head -c 384M /dev/zero >"$image"
	sync "$image"
	drop_cache "$image"
	# In its group before it has any memory.
	server_prefix=(chrt -r 1 bash -c "echo 0 >$group/cgroup.procs && exec \"\$@\"" server)
	start_server "${options[@]}" -- "$image" swap=on contexts=8 depth=4 engine="$1" direct-io=on control="$socket"
	server_prefix=()
	server_pid=$pid
	expect_equal "the server's group" /server "$(sed -n 's/^0:://p' "/proc/$server_pid/cgroup")"
	attach /dev/nbd0 -b 4096 -swap
	expect_log "swap=on: memory locked"
	quietly mkswap /dev/nbd0
	quietly swapon /dev/nbd0
	out=$(vmstat pswpout) in=$(vmstat pswpin)
	spawn squeeze squeeze
	# Two of them, which find their memory taken by each other.
	spawn hog1 "$python" "$hog" 150 1
	spawn hog2 "$python" "$hog" 150 2
	for i in 1 2; do
		poll_for 40 process_gone "${process_pids[hog$i]}" || fail "$1: no progress: $(cat "$dir/hog$i.log")"
		end_process "hog$i"
		[ "$end_status" = 0 ] || fail "$1: $(cat "$dir/hog$i.log")"
	done
	kill "${process_pids[squeeze]}"
	end_process squeeze
	expect_equal "threads that are not I/O flushers ($1)" "" "$(other_threads "$server_pid")"
	out=$((($(vmstat pswpout) - out) * 4)) in=$((($(vmstat pswpin) - in) * 4))
	echo "$1: swapped out $((out / 1024)) MiB, in $((in / 1024)) MiB;" \
		"$(grep -E '^(VmLck|VmSwap|VmRSS)' "/proc/$server_pid/status" | tr -s '\t\n ' ' '), $SECONDS s"
	[ "$out" -gt $((100 << 10)) ] || fail "$1: only $out KiB were swapped out: nothing is proved"
	expect_equal "bytes of the server in swap" 0 \
		"$(awk '/^VmSwap/ {print $2}' "/proc/$server_pid/status")"
	quietly swapoff /dev/nbd0
	detach /dev/nbd0
	stop_server
	reject_log 'error|failed'
	expect_quiet_kernel
}

mark_kernel_log
swaps io_uring
