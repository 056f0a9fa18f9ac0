#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu a kernel whose nbd driver writes zeroes (6.12)
# Ranges of /dev/nbd0 that are zeroed (blkdiscard -z, and fallocate of a block device, which zeroes
# or punches a hole) read back as zeroes, on the device and in the image file. Their neighbours are
# unchanged. The ranges are sectors within a block, ranges across borders, and one of more than 64
# MiB, where nbdkit's own method of zeroing fails. Zeroes without "may be a hole" keep the image's
# space; zeroes with it free that space.
#
# A kernel of 6.12 sends WRITE_ZEROES for that, one request for any size; one of 6.1 has no such
# request, and sends writes. The server's counters show which requests arrived.
#
# The test also covers an image whose file system can neither zero in place nor make holes (Minix),
# so that the plugin must write the zeroes itself.
. "$(dirname "$0")/functions.sh"

require blkdiscard mkfs.minix
size=$((112 << 20))

fill_image()
{
	"$python" - "$image" $((size >> 20)) <<-'END'
		import sys
		with open(sys.argv[1], "wb") as file:
		    for _ in range(int(sys.argv[2])):
		        file.write(b"\xa5" * (1 << 20))
	END
	sync "$image"
}

cat >"$dir/zero.py" <<'END'
"""zero.py DEVICE BLOCK-SIZE: zeroes ranges in three ways, and reads all back.  Prints those of which the
kernel says that it can't.  zero.py FILE BLOCK-SIZE WAY...: only looks whether they are zeroes."""
import ctypes, errno, fcntl, os, struct, subprocess, sys

BLKFLSBUF = 0x1261
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def fallocate(fd, mode, start, size):
    if libc.fallocate(fd, mode | KEEP_SIZE, start, size) < 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def ranges(block):
    """Parts of a block, a whole one, parts of two, and long ones with parts at both ends."""
    yield 0, block
    yield 40960 + block, block
    yield 81920, 4096
    yield 122880 - block, 2 * block
    yield 204800 - block, 65536 + 2 * block
    yield MIB + 4096 - block, 2 * MIB + 3 * block


def plan(block):
    base = 0
    for way in "zeroout", "zero", "punch":
        for start, length in ranges(block):
            yield way, base + start, length
        base += 4 * MIB
    yield "zeroout", 13 * MIB - block, 72 * MIB + 2 * block  # ends in the middle of a block at 85 MiB
    yield "punch", 90 * MIB, 16 * MIB
    yield "zero", 112 * MIB - block, block  # the end of the device


def main():
    path, block = sys.argv[1], int(sys.argv[2])
    done = sys.argv[3:]
    fd = os.open(path, os.O_RDONLY if done else os.O_RDWR)
    total = os.lseek(fd, 0, os.SEEK_END)
    wanted = bytearray(b"\xa5" * total)
    impossible = set()
    for way, start, length in plan(block):
        try:
            if done:
                if way not in done:
                    continue
            elif way == "zeroout":
                if length > 64 * MIB:
                    quiet = {"check": True, "stderr": subprocess.DEVNULL}
                    subprocess.run(["blkdiscard", "-z", "-f", "-o", str(start), "-l", str(length), path], **quiet)
                else:
                    fcntl.ioctl(fd, 0x127F, struct.pack("=QQ", start, length))  # BLKZEROOUT, what blkdiscard -z does
            else:
                fallocate(fd, ZERO_RANGE if way == "zero" else PUNCH_HOLE, start, length)
        except OSError as e:
            if e.errno != errno.EOPNOTSUPP or way != "punch":
                raise
            impossible.add(way)
            continue
        wanted[start : start + length] = bytes(length)
    if not done:
        os.fsync(fd)
        fcntl.ioctl(fd, BLKFLSBUF)
    for at in range(0, total, MIB):
        seen = os.pread(fd, MIB, at)
        if seen != wanted[at : at + MIB]:
            i = next(i for i in range(0, MIB, 512) if seen[i : i + 512] != wanted[at + i : at + i + 512])
            sys.exit(f"{path}: the sector at {at + i} is {'zeroed' if wanted[at + i] else 'not zeroed'}")
    print(*sorted({"zeroout", "zero", "punch"} - impossible))


main()
END

# Sets $zeroes and $writes to the numbers of requests that the server has received.
count_requests()
{
	zeroes=$(control "$dir/control" status exports.0.counters.zeroes)
	writes=$(control "$dir/control" status exports.0.counters.writes)
}

# A kernel of 6.12 sends one WRITE_ZEROES for each of the 21 ranges of zero.py.
expect_requests()
{
	case $VM_LINUX in
	6.1)
		expect_equal "requests to zero, of a kernel that has none" 0 "$zeroes"
		[ "$writes" -ge $(((72 << 20) / (128 << 10))) ] || fail "only $writes writes of zeroes arrived"
		expect_equal "what it can do" "zero zeroout" "$ways"
		;;
	*)
		expect_equal "requests to zero" 21 "$zeroes"
		expect_equal "writes, by a kernel that can do without" 0 "$writes"
		expect_equal "what it can do" "punch zero zeroout" "$ways"
		;;
	esac
}

# The image takes 112 MiB of its file system, less 18 MiB (or 0) that may have become holes.
expect_used() # HOLES
{
	local seen
	sync "$image"
	seen=$(($(blocks_used "$image") / 2048))
	[ "$VM_LINUX" != 6.1 ] || set -- 0
	[ "$seen" -ge $((112 - $1 - 1)) ] && [ "$seen" -le $((112 - $1 + 1)) ] ||
		fail "the image uses $seen MiB of its file system, not $((112 - $1))"
}

zeroes() # DIRECTORY BLOCK-SIZE HOLES KEY=VALUE...
{
	local block_size=$2 holes=$3 what=${*:2} zeroes writes
	image=$1/disk.img
	mark_kernel_log
	fill_image
	start_server -- "$image" control="$dir/control" "${@:4}"
	attach /dev/nbd0 -b "$block_size" -C 2
	ways=$("$python" "$dir/zero.py" /dev/nbd0 "$block_size") || fail "the device does not hold what it should ($what)"
	detach /dev/nbd0
	count_requests
	stop_server
	expect_requests
	# shellcheck disable=SC2086
	"$python" "$dir/zero.py" "$image" "$block_size" $ways >"$dir/command.log" ||
		fail "the image does not hold what it should ($what)"
	expect_equal "size of the image" $size "$(stat -c %s "$image")"
	expect_used "$holes"
	reject_log 'error'
	expect_quiet_kernel
	echo "$what, $zeroes zeroes, $writes writes: $SECONDS s"
	rm "$image"
}

# The image's file system is on a file of its own.
on_other_file_system() # KIND MKFS-COMMAND...
{
	rm -f "$dir/disk"
	truncate -s 130M "$dir/disk"
	quietly "${@:2}" "$dir/disk"
	mount_at "$dir/mounted" -t "$1" -o loop "$dir/disk"
}

zeroes "$dir" 512 18 engine=io_uring
zeroes "$dir" 4096 0 engine=aio discard=off

# Without WRITE_ZEROES the kernel sends plain writes, whatever the file system: test it once.
[ "$VM_LINUX" != 6.1 ] || exit 0
modprobe loop
on_other_file_system minix mkfs.minix -3
zeroes "$dir/mounted" 512 0 engine=threads
unmount "$dir/mounted"
