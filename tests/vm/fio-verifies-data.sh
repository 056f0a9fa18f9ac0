#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu two processors, from which several connections get requests
# fio writes blocks of random sizes at random offsets to /dev/nbd0, with checksums, and reads them
# back: direct and buffered, several jobs at once, over four connections, in blocks of 512 and of
# 4096 bytes. After the device is detached and the server has gone, fio finds the same data in the
# image file, and nothing else has changed there.
#
# On a disk with 4096-byte blocks, eight jobs write the eight sectors of each block at the same
# time: the server has to read, change and write back a block that others are changing too.
# vm: servers nbdkit nbdloopd
. "$(dirname "$0")/functions.sh"

require fio
image=$dir/disk.img
jobs=$dir/jobs.fio
area=$((1 << 20)) # of each job
gap=$((1 << 20))  # before it, between them, and after the last

# Writes a job file: a section for each job, each with an area of its own.
write_jobs() # SMALLEST-BLOCK
{
	local kinds=(direct direct direct buffered buffered) i
	cat >"$jobs" <<-END
		[global]
		thread
		rw=randwrite
		# Sizes of every kind, and offsets that are multiples of the smallest block only.
		bssplit=$1/30:$(($1 + $1))/20:$(($1 * 3))/15:$(($1 * 7))/10:$(($1 * 9))/10:65536/10:$((131072 + $1))/4:1048576/1
		blockalign=$1
		size=$area
		verify=crc32c
		verify_fatal=1
		verify_state_save=0
		do_verify=1
		group_reporting
	END
	for i in "${!kinds[@]}"; do
		# This offset is a multiple of no larger block. The kernel's page cache aligns its
		# requests in its own way.
		local shift=$(($1 * i))
		echo "[${kinds[$i]}$i]"
		echo "offset=$((gap + i * (area + gap) + shift))"
		case ${kinds[$i]} in
		# Some blocks are verified while others are still being written.
		direct) printf '%s\n' direct=1 ioengine=libaio iodepth=16 verify_backlog=64 ;;
		buffered) printf '%s\n' direct=0 ioengine=psync end_fsync=1 ;;
		esac
	done >>"$jobs"
}

# The file is filled with one byte value, which ranges that no job writes must keep.
fill_image() # SIZE
{
	"$python" - "$image" "$1" <<-'END'
		import sys
		with open(sys.argv[1], "wb") as file:
		    file.write(b"\xa5" * int(sys.argv[2]))
	END
	sync "$image"
}

expect_gaps() # JOBS SMALLEST-BLOCK
{
	"$python" - "$image" "$1" "$2" "$area" "$gap" <<-'END' || fail "bytes were written that no job wrote"
		import sys
		jobs, shift, area, gap = map(int, sys.argv[2:])
		with open(sys.argv[1], "rb") as file:
		    data = file.read()
		at = 0
		for i in range(jobs + 1):
		    start = gap + i * (area + gap) + shift * i if i < jobs else len(data)
		    wrong = start - at - data.count(b"\xa5", at, start)
		    if wrong:
		        sys.exit(f"{wrong} bytes between {at} and {start} are not what they were")
		    at = start + area
	END
}

run_fio() # WHAT FIO-ARGUMENT...
{
	local what=$1
	shift
	timeout $((100 * time_factor)) fio --output="$dir/fio.log" "$@" >"$dir/fio-errors.log" 2>&1 || fail "$what"
	! grep -E 'verify:|fio: .*error|err=[^ ]*[1-9]' "$dir/fio.log" "$dir/fio-errors.log" || fail "$what"
}

verifies() # BLOCK-SIZE ENGINE
{
	local size=$((5 * (area + gap) + 2 * gap))
	write_jobs "$1"
	mark_kernel_log
	fill_image $size
	start_server -t 32 -- "$image" engine="$2"
	attach /dev/nbd0 -b "$1" -C 4
	expect_connections /dev/nbd0 4
	run_fio "what fio reads from the device is not what it wrote (blocks of $1, $2)" --filename=/dev/nbd0 "$jobs"
	detach /dev/nbd0
	stop_server
	expect_log "disk\.img: .*, engine $2, direct I/O on \(512-byte blocks\)"
	run_fio "what is in the image file is not what fio wrote (blocks of $1, $2)" \
		--filename="$image" --verify_only "$jobs"
	expect_gaps 5 "$1"
	expect_equal "size of the image" $size "$(stat -c %s "$image")"
	expect_quiet_kernel
	echo "blocks of $1, $2: $SECONDS s"
}

# The image is on a file system on a device with 4096-byte blocks.
write_sectors_of_shared_blocks() # ENGINE
{
	local size=$((2 << 20)) i
	image=$dir/mounted/disk.img
	cat >"$jobs" <<-END
		[global]
		thread
		direct=1
		ioengine=libaio
		iodepth=8
		bs=512
		# The next write goes to the job's sector of the next block.
		rw=write:3584
		size=256k
		verify=crc32c
		verify_fatal=1
		verify_state_save=0
		do_verify=1
		group_reporting
	END
	for i in {0..7}; do
		printf '%s\n' "[sector$i]" "offset=$((i * 512))" >>"$jobs"
	done
	mark_kernel_log
	fill_image $size
	start_server -t 32 -- "$image" engine="$1" sector-size=4096
	attach /dev/nbd0 -b 512 -C 4
	run_fio "what fio reads from the device is not what it wrote (sectors of shared blocks, $1)" \
		--filename=/dev/nbd0 "$jobs"
	detach /dev/nbd0
	stop_server
	expect_log "disk\.img: .*, engine $1, direct I/O on \(4096-byte blocks\)"
	sed -i 's/^direct=1/direct=0/' "$jobs" # of the blocks of this disk, direct I/O could only read all
	run_fio "what is in the image file is not what fio wrote (sectors of shared blocks, $1)" \
		--filename="$image" --verify_only "$jobs"
	expect_quiet_kernel
	echo "sectors of shared blocks, $1: $SECONDS s"
}

verifies 512 io_uring
verifies 4096 aio

modprobe loop
truncate -s 256M "$dir/disk"
attach_loop "$dir/disk" --sector-size 4096
quietly mkfs.ext4 -q "$loop_device"
mount_at "$dir/mounted" -t ext4 "$loop_device"
write_sectors_of_shared_blocks io_uring
unmount "$dir/mounted"
