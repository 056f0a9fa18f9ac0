# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A machine of tests/vm/machine.sh that QEMU emulates: it has two processors and NVMe drives, and
# boots any kernel, but computes twenty times as slowly.

first_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
machine_programs=(qemu-system-x86_64)

# Not what is slow to emulate: five levels of page tables, copies of memory byte by byte.
# One thread for both processors: with two, QEMU 7.2 may keep its translation of an
# instruction that the other one is changing, and the kernel, which changes its own (a
# breakpoint first, in between) for each static key, dies of "Oops: int3".
# And not the TSC as its clock: on a busy machine the kernel may measure its frequency
# wrongly, and takes the timer for broken, of which it would die (no_timer_check).
# Nor random addresses (norandmaps): QEMU would translate the code of a library again for each
# process that has it at another address. A process starts three times as fast without.
machine_run()
{
	local file name arguments=()
	for file in "$machine"/*.raw; do
		name=$(basename "$file" .raw)
		arguments+=(-drive "if=none,id=$name,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,file=$file"
			-device "nvme,serial=$name,drive=$name,max_ioqpairs=8")
	done
	# The unpacked kernels have few drivers of network cards (tests/vm/kernel).
	[ -z "$host" ] || arguments+=(-nic user,model=vmxnet3)
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
		"${arguments[@]}"
}
