#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Swap space on an image that the same machine serves, attached only by nbdloop attach --swap:
# programs that need more memory than is left keep running, while the kernel reclaims all it
# can from server and guard, and the programs find their data unchanged in memory.
#
# A server that can be swapped out is swapped out to its own disk here, and nobody ever brings it
# back. A server whose threads have no buffers allocated beforehand looks for memory for ever, while
# nobody reads the requests that would free some. A server that may not use the last reserve of
# memory, as real-time threads may, waits for ever for a bio: the reserve of bios belongs to the
# writes to the swap device, which wait for the server.
#
# The image has been written from end to end. Otherwise writes allocate, and allocation may wait for
# memory. nbdloop warns of an image that has holes.
#
# The kernel of so small a machine reserves too little memory: its own messages to the server use
# the reserve up, and the server waits for memory to answer them.  nbdloop refuses such a reserve,
# and raises it when it is asked to; the test sets nothing by hand.
# vm: memory 384M
# vm: disk 2G
# vm: limit 700
# vm: servers nbdloopd
# vm: kernel cgroup_no_v1=all
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/swap.img
group=/sys/fs/cgroup/server
hog=$(dirname "$0")/memory_hog.py
reserve=/proc/sys/vm/min_free_kbytes
booted=$reserve_before

# Prints a counter of pages since the boot.
vmstat() # NAME
{
	awk -v name="$1" '$1 == name {print $2}' /proc/vmstat
}

of_status() # FIELD PID
{
	awk -v name="$1:" '$1 == name {print $2}' "/proc/$2/status"
}

# Prints the threads that are no I/O flushers (PR_SET_IO_FLUSHER sets 0x80000, PF_MEMALLOC_NOIO, and
# 0x100000, PF_LOCAL_THROTTLE, in field 9 of stat), and those that have no real-time priority (field
# 40). io_uring's own threads (iou-wrk-PID) are among the threads of a process.
other_threads() # PID
{
	local stat fields
	for stat in "/proc/$1/task"/*/stat; do
		read -ra fields < <(sed 's/.*) //' "$stat") || continue
		[ "$((fields[6] & 0x180000)) ${fields[37]}" = "$((0x180000)) 1" ] || sed 's/^[0-9]* (\(.*\)) .*/\1/' "$stat"
	done
}

# Asks the kernel again and again to reclaim all that it can from the group.
squeeze()
{
	while sleep 2; do
		echo 64M >"$group/memory.reclaim" || true
	done 2>"$dir/squeeze.log"
}

mountpoint -q /sys/fs/cgroup || mount_at /sys/fs/cgroup -t cgroup2 cgroup2
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$group"
on_exit rmdir "$group"
[ -e "$group/memory.reclaim" ] || skip "this kernel has no memory.reclaim"

# nbdloop joins the group before it allocates memory, and so does every process that it starts.
attach_in_group() # OPTION...
{
	bash -c "echo 0 >$group/cgroup.procs && exec \"\$@\"" attach nbdloop attach --show "$@" 2>"$dir/attach.log" ||
		fail "nbdloop attach $* fails: $(cat "$dir/attach.log")"
}

end_hog() # NAME
{
	poll_for 40 process_gone "${process_pids[$1]}" || fail "no progress: $(cat "$dir/$1.log")"
	end_process "$1"
	[ "$end_status" = 0 ] || fail "$(cat "$dir/$1.log")"
}

# Runs programs that use so many MiB each, at the same time.
swaps() # MIB...
{
	local out in hogs=() i server guard
	device=$(attach_in_group --server="$VM_SERVER" --swap=raise --direct-io=on "$image")
	server=$(server_pid "$device")
	guard=$(ps -o ppid= -p "$server" | tr -d ' ')
	expect_equal "the server's group" /server "$(sed -n 's/^0:://p' "/proc/$server/cgroup")"
	expect_equal "largest request" 128 "$(cat "/sys/block/${device#/dev/}/queue/max_sectors_kb")"
	quietly mkswap "$device"
	quietly swapon "$device"
	out=$(vmstat pswpout) in=$(vmstat pswpin)
	spawn squeeze squeeze
	for i; do
		hogs+=("hog$i.${#hogs[@]}")
		spawn "${hogs[-1]}" "$python" "$hog" "$i" "${#hogs[@]}"
	done
	for i in "${hogs[@]}"; do
		end_hog "$i"
	done
	kill "${process_pids[squeeze]}"
	end_process squeeze
	out=$((($(vmstat pswpout) - out) * 4)) in=$((($(vmstat pswpin) - in) * 4))
	for i in "$server" "$guard"; do
		expect_equal "threads that are no I/O flushers, or without a real-time priority" "" "$(other_threads "$i")"
		expect_equal "bytes in swap" 0 "$(of_status VmSwap "$i")"
	done
	echo "$*: swapped out $((out / 1024)) MiB, in $((in / 1024)) MiB; locked $(of_status VmLck "$server") KiB," \
		"and $(of_status VmLck "$guard") KiB of the guard; $SECONDS s"
	[ "$out" -gt $((50 << 10)) ] || fail "only $out KiB were swapped out: nothing is proved"
	quietly swapoff "$device"
	nbdloop_detach "$device"
	expect_equal "the kernel's reserve" 8192 "$(cat $reserve)"
	grep -q "^nbdloop: warning: vm.min_free_kbytes is 8192 now; it was $booted\." "$dir/attach.log" && [ "$(wc -l <"$dir/attach.log")" = 1 ] ||
		fail "nbdloop attach says: $(cat "$dir/attach.log")"
	expect_quiet_kernel
}

mark_kernel_log
truncate -s 64M "$dir/hole.img"
nbdloop_refuses "vm.min_free_kbytes, is $booted, .* needs 8192, .*sysctl -w vm.min_free_kbytes=8192" \
	attach --server="$VM_SERVER" --swap "$dir/hole.img"
expect_equal "the kernel's reserve after a refusal" "$booted" "$(cat $reserve)"
nbdloop_attach --server="$VM_SERVER" --swap --force "$dir/hole.img"
grep -q "hole.img: 65536 of 65536 KiB were never written" "$dir/attach.log" || fail "no word of the hole: $(cat "$dir/attach.log")"
nbdloop_detach "$device"
rm "$dir/hole.img"

head -c 384M /dev/zero >"$image"
sync "$image"
drop_cache "$image"
# The two programs take each other's memory.
swaps 120 120
