#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 64M
# When the file system under a sparse image is full, the client's fsync() fails and the log says
# why; data that was durable before is intact; and when there is space again, the client's file
# system is clean and can be written.
. "$(dirname "$0")/functions.sh"

drive=$(drive_device 1)

# Writes files until a write fails, and lists the durable ones.
cat >"$dir/fill.py" <<'EOP'
import errno, hashlib, os, random, sys

mountpoint, kept, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
choice = random.Random(kept)
with open(kept, "a") as list_:
    for i in range(limit):
        data = choice.randbytes([3000, 200000, 3000000][i % 3])
        try:
            with open(f"{mountpoint}/{limit}-{i}", "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
        except OSError as error:
            print(f"after {i} files: {error.strerror}")
            sys.exit(3 if error.errno in (errno.EIO, errno.EROFS) else 1)
        print(hashlib.sha256(data).hexdigest(), f" {limit}-{i}", file=list_, flush=True)
EOP

fill() # FILES
{
	end_status=0
	timeout 300 "$python" "$dir/fill.py" "$dir/client" "$dir/kept" "$1" >"$dir/fill.log" 2>&1 || end_status=$?
}

check_kept()
{
	(cd "$dir/client" && sha256sum --quiet -c "$dir/kept") >"$dir/sums.log" 2>&1 || fail "$*"
}

survives() # DIRECT-IO
{
	local image=$dir/disk/disk.img
	quietly mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0 "$drive"
	mount "$drive" "$dir/disk"
	rm -f "$dir/kept"
	fallocate -l 32M "$dir/disk/other"
	# The device is twice as large as the space that is left.
	truncate -s 60M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1"
	attach /dev/nbd0 -b 4096
	quietly mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 /dev/nbd0
	mount /dev/nbd0 "$dir/client"

	fill 1000
	expect_equal "how it ended when the disk was full ($(tail -n 1 "$dir/fill.log"))" 3 "$end_status"
	expect_log "error: $image: (write|zero) of [0-9]+ bytes at offset [0-9]+ failed: No space left on device"
	[ "$(wc -l <"$dir/kept")" -ge 5 ] || fail "only $(wc -l <"$dir/kept") files found place"
	echo "$engine, direct-io=$1: $(tail -n 1 "$dir/fill.log")"
	# The data must not come from the client's cache.
	echo 3 >/proc/sys/vm/drop_caches
	check_kept "what was fsynced before can't be read while the disk is full"
	timeout 120 umount "$dir/client" || fail "the client's file system can't be unmounted"

	rm "$dir/disk/other"
	# The mount replays the file system's journal, as after any crash.
	mount /dev/nbd0 "$dir/client" || fail "the client's file system can't be mounted when there is space again"
	check_kept "what was fsynced before is not there when there is space again"
	umount "$dir/client"
	quietly fsck.ext4 -fn /dev/nbd0
	mount /dev/nbd0 "$dir/client"
	fill 5
	expect_equal "how writing ended when there was space again ($(tail -n 1 "$dir/fill.log"))" 0 "$end_status"
	check_kept "files are wrong"
	umount "$dir/client"
	quietly fsck.ext4 -fn /dev/nbd0
	detach /dev/nbd0
	stop_server
	umount "$dir/disk"
}

mkdir "$dir/disk" "$dir/client"
# AIO's errors are the same as those of io_uring.
engine=io_uring
survives on
engine=auto
survives off
