# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A virtual machine of tests/vm/run, which sources this: its files, its start, its end. It stands in
# the directory $machine:
#
#	share/       the guest's /run/vm: the claim to run, and its result
#	*.raw        its drives
#	out console  what the guest's channel "log" and its serial line have said since the start
#	qemu pid     QEMU's messages and process
#	ended        QEMU's exit status, as soon as it has ended
#	description  the claims that may use it (see machine_take); claims: those that have
#	lock         held by the claim that uses it
#
# tests/vm/run sets: series, kernel, memory, disk, drives, nvme, kernel_arguments, host, and
# description, which tells all of them but the last: such a machine has only one claim.

# Longer than any series of claims: a machine that was forgotten does not stay for ever.
machine_seconds=7200

# Sets $machine: one in which a claim with the same description has ended and left nothing, else a
# new one, which machine_start must start. It is this process's own until that ends. Idle machines
# of another description are ended: claims that ask for the same stand next to each other in CLAIMS.
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

# Opens the lock without making it: a machine that another claim removes must not get a new one.
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
	for module in virtio_pci virtio_console 9pnet_virtio 9p overlay; do
		modprobe -d "$kernel" -S "$release" --show-depends $module
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

# Starts the machine; the claim to run must be in share/environment, since /init reads it, too.
machine_start()
{
	local file name arguments=()
	for file in "$machine"/*.raw; do
		name=$(basename "$file" .raw)
		arguments+=(-drive "if=none,id=$name,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,file=$file"
			-device "nvme,serial=$name,drive=$name,max_ioqpairs=8")
	done
	# The unpacked kernels have few drivers of network cards (tests/vm/kernel).
	[ -z "$host" ] || arguments+=(-nic user,model=vmxnet3)
	machine_make_initramfs
	rm -f "$machine"/{pid,ended}
	# Nobody waits for the machine's end, and no pipe of this claim is open until then.
	(
		status=0
		machine_emulate "${arguments[@]}" >"$machine/qemu" 2>&1 || status=$?
		echo "$status" >"$machine/ended"
	) {machine_lock}<&- </dev/null >/dev/null 2>&1 &
}

# Not what is slow to emulate: five levels of page tables, copies of memory byte by byte.
# One thread for both processors: with two, QEMU 7.2 may keep its translation of an
# instruction that the other one is changing, and the kernel, which changes its own (a
# breakpoint first, in between) for each static key, dies of "Oops: int3".
# And not the TSC as its clock: on a busy machine the kernel may measure its frequency
# wrongly, and takes the timer for broken, of which it would die (no_timer_check).
# Nor random addresses (norandmaps): QEMU would translate the code of a library again for each
# process that has it at another address. A process starts three times as fast without.
machine_emulate() # QEMU-OPTION...
{
	timeout --kill-after=5 $machine_seconds qemu-system-x86_64 -nodefaults -no-user-config -display none \
		-machine q35 -accel tcg,thread=single -cpu max,la57=off,erms=off,fsrm=off -smp 2 -m "$memory" -no-reboot \
		-kernel "$kernel/vmlinuz" -initrd "$machine/initramfs.cpio" -pidfile "$machine/pid" \
		-append "console=ttyS0 panic=-1 quiet loglevel=4 random.trust_cpu=on mitigations=off audit=0 norandmaps clocksource=hpet no_timer_check $kernel_arguments" \
		-serial "file:$machine/console" \
		-device virtio-serial-pci -chardev "file,id=log,path=$machine/out" -device virtserialport,chardev=log,name=log \
		-device virtio-rng-pci \
		-fsdev local,id=host,path=/,security_model=passthrough,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=host,mount_tag=host \
		-fsdev "local,id=share,path=$machine/share,security_model=none" \
		-device virtio-9p-pci,fsdev=share,mount_tag=share \
		"$@"
}

# Ends the machine, as a power cut would, and removes its files.
machine_end()
{
	local i
	for ((i = 0; i < 100; i++)); do
		[ -e "$machine/pid" ] && [ ! -e "$machine/ended" ] || break
		kill -KILL "$(<"$machine/pid")" 2>/dev/null || true
		sleep 0.1
	done
	rm -rf "$machine"
}
