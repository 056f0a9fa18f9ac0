#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A snapshot ends when it is removed, at its time, with its export and with the server, also while
# it is read; then its scratch file is gone. When the scratch file is full, the snapshot breaks,
# with words, and the clients of the image write on.
. "$(dirname "$0")/../../../lib/functions.sh"

require mke2fs
require_python_nbd
# A file system that can't clone.
truncate -s 64M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/mounted" -t ext4 "$loop_device"
image=$dir/mounted/disk.img

head -c 4M /dev/urandom >"$image"
start_nbdloopd --sandbox-path="$dir" --control "$dir/control" --export "disk=$image"
"$python" "$own_python" "$sock" "$dir/control" "$image" "$log" "$pid" >"$dir/check.log" 2>&1 || fail "a snapshot didn't end"
stop_server

# The server ends while a snapshot is read and written to. The file system gets its room back.
free=$(stat -f -c %f "$dir/mounted")
start_nbdloopd --sandbox-path="$dir" --control "$dir/control" --export "disk=$image"
quietly "$python" "$lib/control.py" "$dir/control" "snapshot then"
spawn load "$python" -c '
import sys, nbd
from client import connect
disk, then = connect(sys.argv[1], "disk"), connect(sys.argv[1], "then")
try:
    for i in range(1 << 30):
        disk.pwrite(bytes([i % 255]) * 65536, i % 60 * 65536)
        then.pread(65536, i % 60 * 65536)
        if i == 5:
            open(sys.argv[2], "w").close()
except nbd.Error:
    pass' "$sock" "$dir/under-load"
wait_until "the load runs" test -e "$dir/under-load"
stop_server
end_process load
expect_equal "free blocks" "$free" "$(stat -f -c %f "$dir/mounted")"

# The image's file system is full: clients get that error as they would without a snapshot, and
# what the snapshot holds stays right.
truncate -s 100M "$image"
start_nbdloopd --sandbox-path="$dir" --control "$dir/control" --export "disk=$image"
quietly "$python" "$lib/control.py" "$dir/control" "snapshot then scratch=$dir"
"$python" -c '
import hashlib, sys, nbd
from client import connect
disk, then = connect(sys.argv[1], "disk"), connect(sys.argv[1], "then")
digest = lambda: hashlib.sha256(b"".join(then.pread(1 << 20, i << 20) for i in range(100))).digest()
before = digest()
try:
    for i in range(100):
        disk.pwrite(b"f" * (1 << 20), i << 20)
    raise SystemExit("100 MiB went into a file system of 64 MiB")
except nbd.Error as error:
    assert error.errno == "ENOSPC", error
assert digest() == before
' "$sock" >"$dir/check.log" 2>&1 || fail "a snapshot is wrong when the file system is full"
expect_equal "the snapshot" "" "$(control "$dir/control" status exports.1.snapshot.broken)"
stop_server
