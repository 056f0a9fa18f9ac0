# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Finds what a claim has left in a machine that other claims use after it; tests/vm/guest sources
# this.

# Prints a line for each thing that one claim can leave to the next: what is mounted, attached,
# running, changed or set. It uses few processes, because each takes 20 ms here.
machine_state()
{
	local lines words file
	mapfile -t lines </proc/self/mounts
	printf 'mount: %s\n' "${lines[@]}"
	mapfile -t lines </proc/swaps
	printf 'swap: %s\n' "${lines[@]}"
	printf 'block device: %s\n' /sys/class/block/*
	printf 'network interface: %s\n' /sys/class/net/*
	for file in /proc/[0-9]*; do
		words=()
		mapfile -d '' -t words <"$file/cmdline" || true # it may have ended
		[ ${#words[@]} -eq 0 ] || printf 'process: %s\n' "${words[*]}"
	done
	grep -s . /proc/sys/vm/* /proc/sys/kernel/{core_pattern,hung_task_timeout_secs,printk,watchdog_thresh} \
		/sys/block/{nvme,ubd}*/queue/*
	# /run/layer has the changed files of the root directory. quickstart's own log may stay.
	find /run /run/layer -xdev \( -path /run/vm -o -path /run/disk -o -path /run/state \) -prune -o \
		! -type d ! -path '*/build/prepare.log' -printf 'file: %p, %s bytes\n'
} 2>/dev/null

# Whether it is none, or has the file system of /run/disk.
is_no_other_drive() # /sys/block/NAME
{
	[ ! -e "$1" ] || [ "$1" = /sys/block/ubda ] ||
		grep -qsE '^disk *$' "$1/device/serial"
}

# Restores what a claim need not restore itself: empties the disk and the other drives, and unloads
# the drivers of devices. The next claim finds them as after the start.
put_back()
{
	local module drive tries=10
	[ ! -d /run/netns ] || umount /run/netns 2>/dev/null # ip netns never does
	for module in nbd scsi_debug sd_mod null_blk loop; do
		# A process that is ending may use it for a moment longer.
		while [ -d "/sys/module/$module" ] && ! rmmod "$module" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do
			idle 0.5
		done
	done
	find /run/disk -xdev -mindepth 1 -maxdepth 1 ! -name lost+found -exec chattr -R -i {} + -exec rm -rf {} + 2>/dev/null
	for drive in /sys/block/{nvme,ubd}*; do
		is_no_other_drive "$drive" ||
			blkdiscard --force "/dev/${drive##*/}" 2>/dev/null || echo "not emptied: $drive"
	done
	return 0
}

# Prints what differs from the state before the claim. Waits up to ten seconds for a difference to
# vanish, since a process may be ending.
what_is_left() # FILE-WITH-THE-STATE-BEFORE
{
	local tries
	for ((tries = 0; tries < 20; tries++)); do
		machine_state >/run/state/now
		! cmp -s "$1" /run/state/now || return 0
		idle 0.5
	done
	diff "$1" /run/state/now | sed -n 's/^> /left: /p; s/^< /gone: /p'
}
