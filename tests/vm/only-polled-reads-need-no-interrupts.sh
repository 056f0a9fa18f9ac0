#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# On an NVMe drive with a poll queue, by the engine alone: its polled rings read at every queue
# depth without the drive's interrupts, and every other way to the kernel takes one interrupt for
# each read at depth 1.
#
# The output is the table of the patchset "Support for polled aio", by bench/engine_load.c: the best
# of three runs, or more. The machine is emulated, and its rates are of no interest.
# vm: nvme poll_queues=1
# vm: drive 64M
. "$(dirname "$0")/functions.sh"

load=$top_builddir/bench/engine-load
[ -x "$load" ] || skip "make -C bench engine-load builds what this measures with"
drive=$(drive_device 1)
head -c 64M /dev/urandom | dd of="$drive" bs=1M oflag=direct iflag=fullblock status=none

# Sets the array line to the output of a run.
run() # OPTION...
{
	read -ra line < <("$load" "$@" "$drive" 2>"$dir/load.log") || fail "$*: $(cat "$dir/load.log")"
}

# Prints a row of the table, and sets seen to the interrupts for 1000 reads.
measure() # WAY DEPTH
{
	local line=() best=(0) i reads=0 before
	before=$(interrupts "$drive")
	# On a busy machine a single run may see hardly any interrupts.
	for ((i = 0; i < 3 || reads < 500; i++)); do
		run --way="$1" --depth="$2" --seconds=0.5
		reads=$((reads + line[0]))
		[ "${line[0]}" -le "${best[0]}" ] || best=("${line[@]}")
	done
	seen=$((($(interrupts "$drive") - before) * 1000 / reads))
	run --way="$1" --depth="$2" --seconds=0.5 --submission
	printf '%-15s %6d %9d %9d %11.0f %11d\n' "$1" "$2" $((best[0] * 2)) $((best[2] / 1000)) "${line[4]}" $seen
}

echo "way              depth      IOPS   p50, us  submit, ns  interrupts for 1000 reads"
for way in threads aio io_uring files buffers; do
	measure $way 1
	[ "$seen" -gt 800 ] || fail "$way: only $seen interrupts for 1000 reads: nothing is proved"
done
for way in polled polled-buffers; do
	for depth in 1 8; do
		measure $way $depth
		[ "$seen" -lt 250 ] || fail "$way at depth $depth: $seen interrupts for 1000 reads"
	done
done
