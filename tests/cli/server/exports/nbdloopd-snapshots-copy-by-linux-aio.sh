#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The threads that copy for a snapshot read what several writes need by one call (Linux AIO): no
# filter of system calls forbids it to them, which would only make all of it slower.
. "$(dirname "$0")/../../../lib/functions.sh"

require mke2fs strace
require_python_nbd
# A file system that can't clone, with direct I/O.
truncate -s 64M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/mounted" -t ext4 "$loop_device"
image=$dir/mounted/disk.img

head -c 16M /dev/urandom >"$image"
start_nbdloopd --threads=1 --direct-io=on --control "$dir/control" --export "disk=$image"
expect_equal "method" copy "$(control "$dir/control" "snapshot then" snapshot.method)"
spawn strace strace -f -p "$pid" -o "$dir/calls.log" -e trace=io_setup
wait_until "strace looks at the server" grep -q attached "$dir/strace.log"
"$python" -c '
import sys, nbd
h = nbd.NBD()
h.set_export_name("disk")
h.connect_unix(sys.argv[1])
data = nbd.Buffer.from_bytearray(bytearray(4096))
for turn in range(4):
    writes = [h.aio_pwrite(data, turn << 22 | i << 16) for i in range(64)]
    while writes:
        h.poll(-1)
        writes = [write for write in writes if not h.aio_command_completed(write)]' "$sock" >"$dir/client.log" 2>&1 || fail "writes fail"
# The leak sanitizer can't inspect a traced process.
end_process strace INT
stop_server
# PART_READS_MAX
grep 'io_setup(16, .* = 0$' "$dir/calls.log" >"$dir/found" || fail "no copy is made by Linux AIO: $(cat "$dir/calls.log")"
