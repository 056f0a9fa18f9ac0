# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A virtual machine of tests/vm/run, which sources this: its files, its start, its end. It stands in
# the directory $machine:
#
#	share/       the guest's /run/vm: the claim to run, and its result
#	*.raw        its drives
#	out console  what the claims and the kernel have said since the start
#	says pid     the machine's own messages, and its process
#	ended        its exit status, as soon as it has ended
#	description  the claims that may use it (see machine_take); claims: those that have
#	lock         held by the claim that uses it
#
# There are two kinds: the emulated machine of qemu.sh, and the process of uml.sh. Each of these
# files defines first_modules, which the guest needs for its root directory; machine_programs, which
# are needed here; and machine_run, which runs until the machine ends.
#
# tests/vm/run sets series, kernel, memory, disk, drives, nvme, kernel_arguments, host, and
# description, which contains all of them except host. A machine with a host program has only one
# claim.

# Longer than any series of claims, so that a forgotten machine ends.
machine_seconds=7200

# Sets $machine: one in which a claim with the same description has ended and left nothing, else a
# new one, which machine_start must start. It belongs to this process until the process ends. Idle
# machines with another description are ended: in CLAIMS, claims that ask for the same machine stand
# next to each other.
machine_take() # DIRECTORY-OF-MACHINES
{
	for machine in "$1"/*; do
		if [ -d "$machine" ] && machine_lock; then
			if [ -e "$machine/description" ] && [ "$(<"$machine/description")" = "$description" ] &&
				[ ! -e "$machine/ended" ]; then
				return
			fi
			machine_end
		fi
	done
	machine=$(mktemp -d "$1/.XXXX") # nobody else looks at that
	: >"$machine/lock"
	machine_lock
	mv "$machine" "$1/${machine##*/.}"
	machine=$1/${machine##*/.}
	machine_make_drives
}

# Opens the lock, and does not create it: a machine that another claim removes must not get a new
# one.
machine_lock()
{
	[ -z "${machine_lock-}" ] || exec {machine_lock}<&-
	command exec {machine_lock}<"$machine/lock" && flock -n "$machine_lock" && [ -e "$machine/lock" ]
} 2>/dev/null

machine_make_drives()
{
	local i
	mkdir "$machine/share"
	: >"$machine/claims"
	truncate -s "$disk" "$machine/disk.raw"
	mke2fs -q -t ext4 -E lazy_itable_init=1 "$machine/disk.raw"
	for i in "${!drives[@]}"; do
		truncate -s "${drives[$i]}" "$machine/drive$((i + 1)).raw"
	done
}

# The guest's first root directory, which needs no disk.
machine_make_initramfs()
{
	local root=$machine/initramfs release module
	release=$(ls "$kernel/lib/modules")
	mkdir -p "$root/bin"
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp "$here/init" "$root/init"
	cp "$machine/share/environment" "$root/environment"
	for module in "${first_modules[@]}"; do
		modprobe -d "$kernel" -S "$release" --show-depends "$module"
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r module; do
		echo "$(basename "${module%.xz}")" >>"$root/modules"
		case $module in
		*.xz) xz -dc "$module" >"$root/$(basename "${module%.xz}")" ;;
		*) cp "$module" "$root/" ;;
		esac
	done
	(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$machine/initramfs.cpio"
	rm -rf "$root"
}

# Starts the machine. share/environment must already name the claim, because /init reads it, too.
machine_start()
{
	machine_make_initramfs
	rm -f "$machine"/{pid,ended}
	: >"$machine/says"
	# Nobody waits for the machine's end, and it must not keep a pipe of this claim open.
	(
		status=0
		machine_run >"$machine/says" 2>&1 || status=$?
		echo "$status" >"$machine/ended"
	) {machine_lock}<&- </dev/null >/dev/null 2>&1 &
}

# QEMU is one process; user-mode Linux is a group of them.
machine_kill() # PID
{
	kill -KILL -- "-$1" || kill -KILL "$1"
} 2>/dev/null

# Ends the machine, as a power cut would, and removes its files.
machine_end()
{
	local i
	for ((i = 0; i < 100; i++)); do
		[ -e "$machine/says" ] && [ ! -e "$machine/ended" ] || break
		# It may just have been started.
		[ ! -e "$machine/pid" ] || machine_kill "$(<"$machine/pid")" || true
		sleep 0.1
	done
	rm -rf "$machine"
}
