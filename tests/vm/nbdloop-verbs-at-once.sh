#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 540
# vm: servers nbdkit nbdloopd
# All verbs run at once, at random moments, for four minutes (longer with NBDLOOP_TIME_FACTOR),
# while servers are killed. No verb fails, no reader or writer sees an error, and all written data
# is there. The test looks for cases that nobody has thought of. Run it by hand after changes of the
# tool (README.md). Each fault that it finds gets a claim that reproduces it.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require sfdisk fio
# The last actions to begin may take their time, too.
end=$((SECONDS + VM_LIMIT - 300))

going()
{
	[ "$SECONDS" -lt "$end" ]
}

failed()
{
	echo "$SECONDS s: $*" >>"$dir/failed"
}

# Counts an action; its output after a failure is shown at the end.
try() # WHAT COMMAND [ARGUMENT...]
{
	local what=$1 said
	shift
	if said=$(timeout $((100 * time_factor)) "$@" 2>&1 </dev/null); then
		echo "$what" >>"$dir/done"
	else
		failed "$what: $said"
	fi
}

partitioned_image() # FILE START
{
	head -c $((16 << 20)) /dev/urandom >"$1"
	sfdisk -q "$1" <<<$'label: dos\n'"$2,4M"
}

random_pause() # MOST-SECONDS
{
	sleep "$((RANDOM % $1)).$((RANDOM % 10))"
}

# ---- the actions that run at the same time

reads() # DEVICE
{
	while going; do
		try read dd if="$1" of=/dev/null bs=64k iflag=direct
	done
}

writes() # FIO-OPTION...
{
	while going; do
		try verify fio --name=load --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c \
			--verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --time_based --runtime=10 "$@"
	done
}

changes() # DEVICE
{
	while going; do
		try change nbdloop change "$1" "$dir/ro$((1 + RANDOM % 2)).img"
	done
}

replaces() # DEVICE
{
	while going; do
		try replace-server nbdloop replace-server "$1"
		random_pause 2
	done
}

sets() # DEVICE
{
	local values=(on off)
	while going; do
		try set nbdloop set "--direct-io=${values[RANDOM % 2]}" "$1"
	done
}

resizes() # DEVICE IMAGE
{
	while going; do
		truncate -s +64k "$2"
		try resize nbdloop resize "$1"
	done
}

looks()
{
	while going; do
		try list nbdloop list --json
		try status nbdloop status "$@"
	done
}

scans() # DEVICE
{
	while going; do
		blockdev --rereadpt "$1" 2>/dev/null || true
		sleep 0.1
	done
}

kills() # DEVICE
{
	local pid
	while going; do
		random_pause 5
		pid=$(server_pid "$1" 2>/dev/null) && kill -KILL "$pid" 2>/dev/null && echo kill >>"$dir/done"
	done
}

attaches() # NAME
{
	local device
	while going; do
		partitioned_image "$dir/$1.img" 1M
		device=$(timeout $((100 * time_factor)) nbdloop attach --show --partscan "--server=$VM_SERVER" "$dir/$1.img" 2>"$dir/$1.log") || {
			failed "attach: $(cat "$dir/$1.log")"
			continue
		}
		try cmp cmp "$device" "$dir/$1.img"
		[ -b "${device}p1" ] || failed "attach: there is no ${device}p1"
		try detach nbdloop detach "$device"
	done
}

# This server is not nbdloop's own; it is restarted whenever it ends.
remote_server()
{
	while [ ! -e "$dir/stop" ]; do
		nbdloopd -U "$dir/remote.sock" "$dir/remote.img" >/dev/null 2>&1 &
		echo $! >"$dir/remote.pid"
		wait $! || true
		rm -f "$dir/remote.sock"
	done
}

kills_remote_server()
{
	while going; do
		random_pause 7
		kill -KILL "$(cat "$dir/remote.pid")" 2>/dev/null && echo "kill remote" >>"$dir/done"
	done
}

# ---- everything together

modprobe nbd
mark_kernel_log
partitioned_image "$dir/ro1.img" 1M
partitioned_image "$dir/ro2.img" 8M
truncate -s 64M "$dir/grows.img" "$dir/several.img" "$dir/remote.img"
spawn remote remote_server
wait_until "the remote server is there" listens "$dir/remote.sock"
nbdloop_attach "--server=$VM_SERVER" -r "$dir/ro1.img" /dev/nbd1
nbdloop_attach "--server=$VM_SERVER" "$dir/grows.img" /dev/nbd2
nbdloop_attach "--server=$VM_SERVER" --connections=3 --timeout=5 "$dir/several.img" /dev/nbd3
nbdloop_attach --connections=2 "nbd+unix:///?socket=$dir/remote.sock" /dev/nbd4
quietly mkfs.ext4 -q /dev/nbd4
mount_at "$dir/mounted" /dev/nbd4

everybody=()
# The server of a device that is being resized is not killed: see nbdloop-guard(7).
for what in "reads /dev/nbd1" "changes /dev/nbd1" "replaces /dev/nbd1" "scans /dev/nbd1" "kills /dev/nbd1" \
	"writes --filename=/dev/nbd2 --size=32M" "replaces /dev/nbd2" "sets /dev/nbd2" "resizes /dev/nbd2 $dir/grows.img" \
	"writes --filename=/dev/nbd3 --size=32M" "replaces /dev/nbd3" "kills /dev/nbd3" \
	"writes --directory=$dir/mounted --size=16M --fsync=32" kills_remote_server \
	"attaches one" "attaches other" "looks /dev/nbd1" "looks --json /dev/nbd2"; do
	# shellcheck disable=SC2086 # a function and its arguments
	$what &
	everybody+=($!)
done
for pid in "${everybody[@]}"; do
	wait "$pid" || true
done
sort "$dir/done" | uniq -c
[ ! -e "$dir/failed" ] || fail "some of it failed: $(cat "$dir/failed")"
for what in read verify change replace-server set resize list status kill detach cmp "kill remote"; do
	grep -qx "$what" "$dir/done" || fail "this was never done: $what"
done
unmount "$dir/mounted"
nbdloop_detach /dev/nbd{1,2,3,4}
touch "$dir/stop"
kill "$(cat "$dir/remote.pid")"
end_process remote
expect_nothing_left
! kernel_log | grep -E 'I/O error|EXT4-fs (error|warning)' || fail "the kernel had I/O errors"
