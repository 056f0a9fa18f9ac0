#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: boots 2
# vm: drive 256M
# vm: drive 256M
# vm: drive 256M
# vm: drive 256M
# vm: drive 256M
# vm: drive 256M
# Data that was fsynced through /dev/nbd0 survives when the machine that both serves and uses the
# image loses its power.
#
# Each combination of engine and direct-io has a drive of its own, whose file system is told not to
# write back by itself. So everything that a server keeps in the machine's memory is lost with it:
# the image's data and, also with direct I/O, the allocation of a sparse image. A drive's own cache,
# in the host's memory, survives here; flushed-data-survives-power-loss.sh covers that cache.
. "$(dirname "$0")/functions.sh"

# This list is on the host, and says what must be there.
kept=/run/vm/fsynced
modes=(io_uring-on io_uring-off aio-on aio-off threads-on threads-off)

# Writes files, and records at once the expected contents of each durable file: with these sizes a
# file is in the journal of the client's file system, in several requests, and in many.
cat >"$dir/writer.py" <<'EOP'
import hashlib, mmap, os, random, sys

mountpoint, device, kept = sys.argv[1:]
choice = random.Random(kept)
# FUA: the last block of the device, after the file system. It comes first, so that it doesn't hide
# an fsync() without effect.
block = mmap.mmap(-1, 4096)
block[:] = choice.randbytes(4096)
fd = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
os.pwrite(fd, block, os.lseek(fd, 0, os.SEEK_END) - 4096)
with open(kept + ".block", "wb") as f:
    f.write(block)
with open(f"{mountpoint}/again", "wb") as f:
    f.write(bytes(20000))
    f.flush()
    os.fsync(f.fileno())
with open(kept, "w") as list_:
    for i in range(6):
        data = choice.randbytes((100, 5000, 400000)[i % 3])
        with open(f"{mountpoint}/file-{i}", "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        print(hashlib.sha256(data).hexdigest(), f" file-{i}", file=list_, flush=True)
    # This comes last, since for the server it is a mere flush, which must leave nothing that only a
    # later FUA write would bring to the drive.
    data = choice.randbytes(20000)
    with open(f"{mountpoint}/again", "r+b") as f:
        f.write(data)
        f.flush()
        os.fdatasync(f.fileno())
    print(hashlib.sha256(data).hexdigest(), " again", file=list_, flush=True)
EOP

before() # MODE NUMBER
{
	local mode=$1 device=/dev/nbd$2 drive
	drive=$(drive_device $(($2 + 1)))
	server=server$2
	mkdir "$dir/disk$2" "$dir/client$2"
	quietly mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$drive"
	mount -o commit=3000 "$drive" "$dir/disk$2"
	truncate -s 64M "$dir/disk$2/disk.img"
	# The drive already has the image's file, but not its contents.
	sync -f "$dir/disk$2/disk.img"
	start_server -- "$dir/disk$2/disk.img" engine="${mode%-*}" direct-io="${mode#*-}"
	attach "$device" -b 4096
	quietly mke2fs -q -t ext4 "$device" 60M
	mount "$device" "$dir/client$2"
	# From here on only the writer's own calls bring data to the drive.
	quietly "$python" "$dir/writer.py" "$dir/client$2" "$device" "$kept-$mode"
}

after() # MODE NUMBER
{
	local mode=$1 drive loop
	drive=$(drive_device $(($2 + 1)))
	mkdir -p "$dir/disk" "$dir/client"
	mount "$drive" "$dir/disk" || fail "$mode: the file system under the image can't be mounted"
	loop=$(losetup --find --show "$dir/disk/disk.img")
	mount "$loop" "$dir/client" || fail "$mode: the client's file system can't be mounted"
	(cd "$dir/client" && sha256sum --quiet -c "$kept-$mode") >"$dir/sums.log" 2>&1 ||
		fail "$mode: what had been fsynced is not there"
	tail -c 4096 "$dir/disk/disk.img" | cmp - "$kept-$mode.block" >"$dir/block.log" 2>&1 ||
		fail "$mode: what an O_DSYNC write had written is not there"
	umount "$dir/client"
	quietly fsck.ext4 -fn "$loop"
	losetup -d "$loop"
	umount "$dir/disk"
}

# No data is written back because of its age.
echo 360000 >/proc/sys/vm/dirty_expire_centisecs
if [ "$VM_BOOT" = 1 ]; then
	for i in "${!modes[@]}"; do
		before "${modes[$i]}" "$i"
	done
	power_cut
fi
modprobe loop
for i in "${!modes[@]}"; do
	after "${modes[$i]}" "$i"
done
