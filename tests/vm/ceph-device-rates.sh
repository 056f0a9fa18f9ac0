#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The source of a table of bench/ceph: how fast a device of an image in Ceph is. It compares
# rbd-nbd, nbdloop with a server in the machine, and nbdloop with a gateway beside the machine. The
# image is the same, and the cluster is beside the machine. For each run it prints "rate: WORK:
# CLIENT: REQUESTS PER SECOND: MICROSECONDS": the time that the machine's processors were busy for a
# request. fio's start is not in these figures.
#
# vm: host ceph-beside
# vm: limit 1800
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/host.sh"

require fio rbd-nbd
export NBDLOOP_MODULES=$top_builddir/engine
conf=/run/vm/ceph.conf
seconds=${NBDLOOP_SECONDS:-2}

cells=(
	"4 KiB reads, depth 32:randread:4k:32:8"
	"4 KiB writes, depth 32:randwrite:4k:32:8"
	"4 KiB reads, depth 128:randread:4k:128:8"
	"4 KiB writes, depth 128:randwrite:4k:128:8"
	"1 MiB reads, depth 8:randread:1m:8:2048"
	"1 MiB writes, depth 8:randwrite:1m:8:2048"
)
clients=("nbdloop" "rbd-nbd" "rbd-nbd, no cache" "nbdloop, a gateway on the host")

# Sets device.
client_start() # CLIENT
{
	case $1 in
	nbdloop) nbdloop_attach --ceph-conf=$conf rbd:rbd/disk ;;
	"nbdloop, a gateway on the host")
		host gateway start
		nbdloop_attach "nbd://10.0.2.2:$(</run/vm/gateway)/"
		;;
	rbd-nbd*)
		local options=()
		[ "$1" = rbd-nbd ] || options=(--rbd-cache=false)
		device=/dev/nbd9
		quietly rbd-nbd -c $conf "${options[@]}" map --device $device rbd/disk
		wait_until "rbd-nbd's device has a size" device_is_there $device
		;;
	esac
}

client_end() # CLIENT
{
	case $1 in
	rbd-nbd*)
		quietly rbd-nbd unmap "$device"
		wait_until "rbd-nbd's device is gone" device_is_gone "$device"
		;;
	*) nbdloop_detach "$device" ;;
	esac
	[[ $1 != *gateway* ]] || host gateway end
}

# Sets now (microseconds), sectors (that the device has read and written) and busy (hundredths of a
# second of all processors, without those that were idle).
look()
{
	local device_stat processors
	read -ra device_stat <"/sys/block/${device#/dev/}/stat"
	read -ra processors </proc/stat
	now=${EPOCHREALTIME/./}
	sectors=$((device_stat[2] + device_stat[6]))
	busy=$((processors[1] + processors[2] + processors[3] + processors[6] + processors[7]))
}

measure() # CLIENT WORK PATTERN SIZE DEPTH SECTORS-OF-A-REQUEST
{
	local from began before
	look
	from=$sectors
	spawn fio fio --name=rate --filename="$device" --direct=1 --ioengine=libaio --rw="$3" --bs="$4" --iodepth="$5" \
		--time_based --runtime=1000 --randrepeat=0 --norandommap
	while [ "$sectors" = "$from" ]; do
		! process_gone "$pid" || fail "fio on $device of $1"
		sleep 0.1
		look
	done
	sleep 1 # the emulator translates what runs the first time
	look
	from=$sectors began=$now before=$busy
	sleep "$seconds"
	look
	end_process fio INT
	grep -q 'err= 0' "$dir/fio.log" || fail "fio on $device of $1"
	[ "$sectors" -gt "$from" ] || fail "$device of $1 has done nothing"
	awk -v what="$2: $1" -v requests=$(((sectors - from) / $6)) -v us=$((now - began)) -v busy=$(((busy - before) * 10000)) \
		'BEGIN {printf "rate: %s: %.0f: %.0f\n", what, requests * 1e6 / us, busy / requests}'
}

reach_host
lead_loopback_to_host
modprobe nbd
client_start nbdloop
quietly dd if=/dev/urandom of="$device" bs=1M oflag=direct count=64
client_end nbdloop
for ((round = 0; round < ${NBDLOOP_ROUNDS:-3}; round++)); do
	for ((turn = 0; turn < ${#clients[@]}; turn++)); do
		client=${clients[(round + turn) % ${#clients[@]}]}
		client_start "$client"
		for cell in "${cells[@]}"; do
			[[ $cell =~ ${NBDLOOP_CELLS-} ]] || continue
			IFS=: read -r -a words <<<"$cell"
			measure "$client" "${words[@]}"
		done
		client_end "$client"
	done
done
