#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 3600
# The source of bench/device's table: how fast /dev/nbdN is with nbdloop and with its peers, beside
# the kernel's loop device. All have the same image, on the guest's drive, and use direct I/O. Each
# round measures each work on each device; the next round begins with another device. For each run
# it prints "rate: WORK: DEVICE: REQUESTS PER SECOND: CONTEXT SWITCHES PER REQUEST", and for each
# device "cached: DEVICE: KIB OF THE IMAGE IN THE PAGE CACHE".
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
require fincore
require nbd-client
require qemu-nbd
cd "$dir"
image=$dir/disk.img
size=${NBDLOOP_SIZE:-256M}

# NAME:RW:SIZE:DEPTH[:FIO-OPTION]...
works=(
	"4 KiB random read, depth 1:randread:4k:1"
	"4 KiB random read, depth 8:randread:4k:8"
	"4 KiB random read, depth 32:randread:4k:32"
	"4 KiB random read, depth 128:randread:4k:128"
	"4 KiB random write, depth 1:randwrite:4k:1"
	"4 KiB random write, depth 8:randwrite:4k:8"
	"4 KiB random write, depth 32:randwrite:4k:32"
	"4 KiB random write, depth 128:randwrite:4k:128"
	"4 KiB random write, depth 32, flushes:randwrite:4k:32:--fsync=32"
	"1 MiB read, depth 1:read:1m:1"
	"1 MiB read, depth 8:read:1m:8"
	"1 MiB write, depth 1:write:1m:1"
	"1 MiB write, depth 8:write:1m:8"
)
kinds=(nbdloop loop-direct loop-buffered nbdkit qemu-nbd)
[ -z "${NBDLOOP_DEVICES:-}" ] || read -ra kinds <<<"$NBDLOOP_DEVICES"

begin() # KIND
{
	case $1 in
	nbdloop) nbdloop_attach "$image" ;;
	nbdloop-c*) nbdloop_attach --connections="${1#nbdloop-c}" "$image" ;;
	loop-direct) attach_loop "$image" --direct-io=on && device=$loop_device ;;
	loop-buffered) attach_loop "$image" && device=$loop_device ;;
	nbdkit) spawn peer nbdkit -f -U "$dir/peer.sock" -t 64 file "$image" cache=none ;;
	nbdkit-cached) spawn peer nbdkit -f -U "$dir/peer.sock" -t 64 file "$image" ;;
	qemu-nbd)
		spawn peer qemu-nbd --persistent --shared=0 --socket="$dir/peer.sock" --format=raw --cache=none \
			--aio=io_uring "$image"
		;;
	*) fail "NBDLOOP_DEVICES: $1 is no kind of device" ;;
	esac
	case $1 in
	nbdkit* | qemu-nbd)
		device=/dev/nbd9 sock=$dir/peer.sock
		wait_until "$1 listens" listens "$sock"
		attach "$device"
		;;
	esac
}

end() # KIND
{
	case $1 in
	nbdloop*) nbdloop_detach "$device" ;;
	loop-*) detach_loop "$device" ;;
	*)
		detach "$device"
		end_process peer TERM
		rm -f "$dir/peer.sock"
		;;
	esac
}

machine_switches()
{
	sed -n 's/^ctxt //p' /proc/stat
}

# fio's terse output has the counts of reads and writes, in KiB, in its fields 6 and 47, and their
# rates in 8 and 49.
measure() # KIND WORK
{
	local options said switches kib rate
	IFS=: read -r -a options <<<"$2"
	sync
	echo 3 >/proc/sys/vm/drop_caches
	switches=$(machine_switches)
	said=$(fio --name=rate --filename="$device" --direct=1 --ioengine=libaio --size="$size" --rw="${options[1]}" \
		--bs="${options[2]}" --iodepth="${options[3]}" --time_based --runtime="${NBDLOOP_SECONDS:-1.5}" \
		--randrepeat=0 --norandommap --minimal "${options[@]:4}") || fail "fio on $device"
	switches=$(($(machine_switches) - switches))
	read -r kib rate < <(cut -d';' -f6,8,47,49 <<<"$said" | awk -F';' '{print $1 + $3, $2 + $4}')
	echo "rate: ${options[0]}: $1: $rate: $(awk -v kib="$kib" -v size="${options[2]}" -v switches="$switches" \
		'BEGIN {printf "%.2f", switches / (kib / (size == "4k" ? 4 : 1024))}')"
}

modprobe nbd
modprobe loop
dd if=/dev/urandom of="$image" bs=1M count="${size%M}" conv=fsync status=none
for ((round = 0; round < ${NBDLOOP_ROUNDS:-3}; round++)); do
	for ((turn = 0; turn < ${#kinds[@]}; turn++)); do
		kind=${kinds[$(((round + turn) % ${#kinds[@]}))]}
		begin "$kind"
		for work in "${works[@]}"; do
			[[ ! ${work%%:*} =~ ${NBDLOOP_CELLS:-} ]] || measure "$kind" "$work"
		done
		echo "cached: $kind: $(($(fincore --bytes --noheadings --output=RES "$image") / 1024))"
		end "$kind"
	done
done
