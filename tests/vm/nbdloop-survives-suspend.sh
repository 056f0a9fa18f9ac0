#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: boots 2
# vm: limit 150
# The machine is suspended to memory while fio writes to an attached image and verifies it. After
# the machine resumes, fio continues without an error. Another device, whose server is reached over
# TCP, has lost nothing. Both devices can be detached.
#
# The guest's root directory and the way to its results are virtio-9p, which does not survive a
# suspend. What runs after it is in memory, and the second boot looks at its results.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
result=/run/disk/result
small=/dev/shm/root # the root directory of what runs after the suspend

# With the libraries that it needs.
copy() # PROGRAM
{
	local file
	for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$small${file%/*}"
		[ -e "$small$file" ] || cp -L "$file" "$small$file"
	done
}

make_small_root()
{
	local program directory
	for program in busybox fio; do
		copy "$(command -v $program)"
	done
	copy "$top_builddir/tool/nbdloop"
	copy "$top_builddir/server/nbdloopd"
	for directory in dev proc sys run; do
		mkdir -p "$small/$directory"
		mount --rbind "/$directory" "$small/$directory"
	done
}

if [ "$VM_BOOT" = 2 ]; then
	cat /run/disk/{result,fio.log} || fail "the first machine has left nothing"
	for line in 'suspended: 0' 'fio: 0' 'bytes of nbd1: 0' 'detached: 0'; do
		grep -qx "$line" $result || fail "it doesn't say \"$line\""
	done
	grep -q 'PM: suspend exit' /run/disk/dmesg || fail "the kernel tells of no resume"
	! grep -E 'I/O error|timed out|Dead connection' /run/disk/dmesg || fail "the kernel complained"
	exit
fi

mount -o remount,size=90% /dev/shm
make_small_root
modprobe nbd
truncate -s 64M /run/disk/{0,1}.img
head -c 1M /dev/urandom | dd of=/run/disk/1.img conv=notrunc status=none
cat >$small/script <<END
export PATH=$top_builddir/tool:$top_builddir/server:$(dirname "$(command -v fio)")
box=$(command -v busybox)
exec >>$result 2>&1
nbdloopd --port 10809 /run/disk/1.img &
nbdloop attach /run/disk/0.img /dev/nbd0
until nbdloop attach nbd://127.0.0.1 /dev/nbd1; do \$box sleep 0.5; done
fio --name=load --filename=/dev/nbd0 --rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 --direct=1 \
	--verify=crc32c --verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --time_based --runtime=8 \
	--output=/run/disk/fio.log &
\$box sleep 3
echo +3 >/sys/class/rtc/rtc0/wakealarm
echo mem >/sys/power/state
echo "suspended: \$?"
wait %2
echo "fio: \$?"
\$box cmp -n 1048576 /dev/nbd1 /run/disk/1.img
echo "bytes of nbd1: \$?"
nbdloop detach /dev/nbd0 /dev/nbd1
echo "detached: \$?"
\$box dmesg >/run/disk/dmesg
\$box sync
echo b >/proc/sysrq-trigger
END
: >/run/vm/power-cut
exec chroot $small "$(command -v busybox)" sh /script
