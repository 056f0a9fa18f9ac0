#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The machine itself uses an image, with ext4 on /dev/nbd0 and four jobs that write and read files
# there. Without direct I/O, all data is in memory twice, as the application's files and as the
# image. With direct I/O, the page cache has only the application's files. The kernel's loop device
# is measured for comparison.
#
# The output is the table of the loop driver's direct I/O (Linux commit bc07c10a36): Buffers and
# Cached of /proc/meminfo after the run. The rates are those of an emulated machine and of no
# interest, except for their order.
# vm: limit 900
. "$(dirname "$0")/functions.sh"

require fio fincore
jobs=4
each=16 # MiB
data=$((jobs * each << 10)) # KiB
image=$dir/disk.img
mounted=$dir/mounted

meminfo() # NAME
{
	awk -v name="$1:" '$1 == name {print $2}' /proc/meminfo
}

context_switches()
{
	awk '/^ctxt/ {print $2}' /proc/stat
}

# All four jobs run one after the other: data that was written may still be in memory, but the final
# reads, of all files, come from the disk.
cat >"$dir/work.fio" <<END
[global]
directory=$mounted
filename_format=file\$jobnum
numjobs=$jobs
size=${each}M
ioengine=psync
group_reporting
stonewall
[write]
rw=write
bs=64k
end_fsync=1
[randread]
rw=randread
bs=4k
number_ios=300
[randwrite]
rw=randwrite
bs=4k
number_ios=300
end_fsync=1
invalidate=0
[read]
rw=read
bs=64k
END

# Prints the rates, in operations per second.
work()
{
	fio --output-format=json --output="$dir/fio.json" "$dir/work.fio" >"$dir/fio.log" 2>&1 || fail "$what: fio fails"
	"$python" -c "import json, sys
for job in json.load(open(sys.argv[1]))['jobs']:
    print(round(job['read']['iops'] + job['write']['iops']))" "$dir/fio.json"
}

# Runs the jobs on the device, and sets line as well as buffers, cached and image_cached (increases
# in KiB).
measure() # DEVICE
{
	local rates switches
	quietly mkfs.ext4 -q -F -E nodiscard "$1"
	mount_at "$mounted" "$1"
	sync
	echo 3 >/proc/sys/vm/drop_caches
	# The program itself is in the page cache, too.
	quietly fio --parse-only "$dir/work.fio"
	buffers=$(meminfo Buffers) cached=$(meminfo Cached) switches=$(context_switches)
	rates=$(work)
	switches=$(($(context_switches) - switches))
	buffers=$(($(meminfo Buffers) - buffers)) cached=$(($(meminfo Cached) - cached))
	image_cached=$(($(cached_bytes "$image") / 1024))
	# shellcheck disable=SC2086
	line=$(printf '%-18s %9d %9d %9d %9d %9d %9d %9d %9d' "$what" $((buffers / 1024)) $((cached / 1024)) \
		$((image_cached / 1024)) "$switches" $rates)
	unmount "$mounted"
}

expect_twice_in_memory()
{
	[ "$image_cached" -gt $((data * 9 / 10)) ] || fail "$what: only $image_cached KiB of the image are in memory"
	[ $((buffers + cached)) -gt $((data * 18 / 10)) ] ||
		fail "$what: page cache and buffers grew by $((buffers + cached)) KiB for $data KiB: nothing is proved"
}

expect_once_in_memory()
{
	[ "$image_cached" -lt $((data / 50)) ] || fail "$what: $image_cached KiB of the image are in memory"
	[ $((buffers + cached)) -gt $((data * 9 / 10)) ] ||
		fail "$what: the files are not in memory: page cache and buffers grew by $((buffers + cached)) KiB"
	[ $((buffers + cached)) -lt $((data * 12 / 10)) ] ||
		fail "$what: page cache and buffers grew by $((buffers + cached)) KiB for $data KiB of files"
}

# All blocks of the image are allocated: allocation is not part of the comparison.
make_image()
{
	rm -f "$image"
	fallocate -l 1G "$image"
}

on_nbd() # DIRECT-IO WHAT
{
	what=$2
	make_image
	start_server -t 64 -- "$image" direct-io="$1"
	attach /dev/nbd0 -b 4096
	measure /dev/nbd0
	detach /dev/nbd0
	stop_server
	expect_log "direct I/O $1"
}

on_loop() # DIRECT-IO WHAT
{
	what=$2
	make_image
	attach_loop "$image" --sector-size 4096 --direct-io="$1"
	measure "$loop_device"
	detach_loop "$loop_device"
}

quietly modprobe loop
echo "MiB after $jobs jobs of $each MiB   Buffers    Cached     image  switches     write  randread randwrite      read"
for row in "on_nbd off" "on_nbd on" "on_loop off" "on_loop on"; do
	read -r device direct <<<"$row"
	$device "$direct" "${device#on_}, $([ "$direct" = on ] && echo direct || echo buffered)"
	echo "$line"
	if [ "$direct" = on ]; then expect_once_in_memory; else expect_twice_in_memory; fi
done
