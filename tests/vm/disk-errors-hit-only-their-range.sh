#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 128M
# When a part of the disk under an image fails, exactly the client's requests for that part fail.
# They fail with an I/O error, and a line of the log for each says what failed, where and why.
# Everything else can be read and written.
#
# Without direct I/O, a write is acknowledged before the disk has its data. The client's fsync()
# then reports the error, and so does every later fsync(), since nobody knows what is lost; a
# restart of the server clears it. With direct I/O, the same is true for a file, but not for a
# device: none of its data was in the page cache.
#
# The disk is a device of the device mapper, of which 64 KiB are replaced by its target "error" (for
# reads and writes) or "flakey" (writes only) while the server runs; the image is a file on a file
# system there, or that device itself.
. "$(dirname "$0")/functions.sh"

drive=$(drive_device 1)
sectors=$(blockdev --getsz "$drive")
size=$((8 << 20))
sync_device=("$python" -S -c 'import os; os.fsync(os.open("/dev/nbd0", os.O_RDWR))')
# The bad part's place in the image. It is small, so that each of its blocks can be tried.
bad=$((5 << 20)) bad_length=$((64 << 10))

# Tries each block of the device, from 256 KiB before the bad part to 256 KiB after it, and large
# requests.
cat >"$dir/try.py" <<'EOP'
import mmap, os, sys

device, bad, length, what, expected = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
fd = os.open(device, os.O_RDWR | os.O_DIRECT)
problems, errors = [], 0

def attempt(what, offset, count, fails):
    global errors
    buffer = mmap.mmap(-1, count)
    try:
        if what == "read":
            os.preadv(fd, [buffer], offset)
            block = offset // 4096 & 0xff
            if buffer[:16] != bytes([block]) * 16 or buffer[-16:] != bytes([block + count // 4096 - 1 & 0xff]) * 16:
                problems.append(f"read of {count} bytes at {offset} shows something else")
        else:
            for i in range(0, count, 4096):
                buffer[i:i + 4096] = bytes([(offset + i) // 4096 & 0xff]) * 4096
            os.pwritev(fd, [buffer], offset)
        failed = None
    except OSError as error:
        failed = error.strerror
        errors += 1
    if failed != ("Input/output error" if fails else None):
        problems.append(f"{what} of {count} bytes at {offset}: {failed or 'no error'}")

def overlaps(offset, count):
    return offset < bad + length and bad < offset + count

# Try all neighbours of the bad part, but only some of its blocks: each error takes a line of the
# log, which allows ten lines within ten seconds.
inside = [bad, bad + length // 2, bad + length - 4096]
outside = [offset for offset in range(bad - (256 << 10), bad + length + (256 << 10), 4096) if not overlaps(offset, 4096)]
if what == "all":
    for offset in range(0, 8 << 20, 1 << 16):
        attempt("write", offset, 1 << 16, False)
    os.fsync(fd)
else:
    for offset in inside:
        attempt(what, offset, 4096, expected == "errors")
    # In these requests, only the last or the first block fails.
    for offset in (bad - 65536 + 4096, bad + length - 4096):
        attempt(what, offset, 65536, expected == "errors")
    for offset in (bad - 65536, bad + length):
        attempt(what, offset, 65536, False)
    for offset in outside:
        attempt(what, offset, 4096, False)
for problem in problems[:10]:
    print(problem)
print(f"{errors} errors")
sys.exit(len(problems) > 0)
EOP

try() # WHAT errors|fine
{
	quietly "$python" -S "$dir/try.py" /dev/nbd0 $bad $bad_length "$1" "$2"
}

# Each failed request has a line in the log, and no other request has one.
expect_error_lines() # WHAT
{
	local lines wanted="error: $image: $1 of 4096 bytes at offset"
	local offset
	for offset in $bad $((bad + bad_length / 2)) $((bad + bad_length - 4096)); do
		lines=$(grep -cF "$wanted $offset failed: Input/output error" "$log") || true
		expect_equal "lines of the log for the failed $1 at offset $offset" 1 "$lines"
	done
	for offset in $((bad - 65536 + 4096)) $((bad + bad_length - 4096)); do
		grep -qF "error: $image: $1 of 65536 bytes at offset $offset failed: Input/output error" "$log" ||
			fail "the log says nothing of the failed $1 of 64 KiB at offset $offset"
	done
	expect_equal "lines of the log about failed $1s" 5 "$(grep -c " $1 of .* failed" "$log")"
}

# Finds the disk sectors of the image's bad part.
find_bad()
{
	bad_sector=$((bad / 512))
	[ "$image" != /dev/mapper/disk ] || return 0
	filefrag -b512 -v "$image" >"$dir/filefrag.log"
	bad_sector=$(awk -v at=$((bad / 512)) -v n=$((bad_length / 512)) '
		/^ *[0-9]+:/ {
			gsub(/[.:]/, " ")
			if ($2 <= at && at + n - 1 <= $3)
				print $4 + at - $2
		}' "$dir/filefrag.log")
	[ -n "$bad_sector" ] || fail "the image's blocks are not where they can be found: $(cat "$dir/filefrag.log")"
}

whole()
{
	change_mapped disk "0 $sectors linear $drive 0"
}

with_bad_part() # TARGET [ARGUMENTS]
{
	local end=$((bad_sector + bad_length / 512))
	change_mapped disk "0 $bad_sector linear $drive 0
$bad_sector $((bad_length / 512)) $1
$end $((sectors - end)) linear $drive $end"
}

serve() # DIRECT-IO
{
	start_server -- "$image" engine="$engine" direct-io="$1"
	attach /dev/nbd0 -b 4096
}

end_serving()
{
	detach /dev/nbd0
	stop_server
}

direct()
{
	serve on
	try all fine
	with_bad_part error
	try read errors
	expect_error_lines read
	try write errors
	expect_error_lines write
	whole
	try write fine
	try read fine
	quietly "${sync_device[@]}"
	end_serving
}

only_writes_fail() # lost|kept
{
	serve on
	with_bad_part "flakey $drive $bad_sector 0 1 1 error_writes"
	try write errors
	expect_error_lines write
	try read fine
	# The target "flakey" lets no flush through either.
	must_fail "${sync_device[@]}"
	whole
	if [ "$1" = lost ]; then
		# Some of the lost data might have been in the page cache.
		must_fail "${sync_device[@]}"
		end_serving
		serve on
	fi
	quietly "${sync_device[@]}"
	end_serving
}

buffered()
{
	serve off
	try all fine
	drop_cache "$image"
	with_bad_part error
	try read errors
	expect_error_lines read
	# The writes go into the page cache: none has failed yet.
	try write fine
	reject_log "(write|flush) .*failed"
	must_fail "${sync_device[@]}"
	grep -q 'Input/output error' "$dir/refused.log" || fail "fsync() fails with something else"
	expect_log "error: $image: flush failed: Input/output error: writing back failed"
	# The disk works again, but the lost data stays lost.
	whole
	must_fail "${sync_device[@]}"
	try write fine
	try read fine
	must_fail "${sync_device[@]}"
	end_serving

	serve off
	try all fine
	quietly "${sync_device[@]}"
	try read fine
	end_serving
}

make_mapped disk "0 $sectors linear $drive 0"
quietly mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/disk
mkdir "$dir/disk"
# The file system must not use the disk for itself while a part of the disk fails.
mount -o lazytime,commit=3000 /dev/mapper/disk "$dir/disk"
on_exit umount -q -l "$dir/disk"
image=$dir/disk/disk.img
# The image is written once, so that a later write touches nothing but the data.
dd if=/dev/zero of="$image" bs=1M count=$((size >> 20)) conv=fsync status=none
find_bad
# AIO's errors are the same as those of io_uring.
engines=${engines/aio/}
each_engine direct
engine=auto
# Behaviour that depends only on the server is tested on one of the kernels, a file on the older, a
# device on the newer.
if [ "$VM_LINUX" = 6.1 ]; then
	only_writes_fail lost
	buffered
fi
umount "$dir/disk"
quietly fsck.ext4 -fn /dev/mapper/disk
[ "$VM_LINUX" != 6.1 ] || exit 0

image=/dev/mapper/disk
find_bad
direct
only_writes_fail kept
buffered
