# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A machine of tests/vm/machine.sh that QEMU emulates: it has two processors and NVMe drives, and
# boots any kernel, but computes twenty times as slowly.

first_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
machine_programs=(qemu-system-x86_64)

# Features that are slow to emulate are off: five levels of page tables, copies of memory byte by
# byte.
#
# One thread emulates both processors. With two threads, QEMU 7.2 may keep its translation of an
# instruction that the other processor is changing. The kernel changes its own instructions for each
# static key (a breakpoint first, in between), and dies of "Oops: int3".
#
# The TSC is not the clock. On a busy machine, the kernel may measure its frequency wrongly,
# consider the timer broken, and die of that (no_timer_check).
#
# Addresses are not random (norandmaps). Otherwise QEMU translates the code of a library again for
# each process that has it at another address. A process starts three times as fast like this.
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
