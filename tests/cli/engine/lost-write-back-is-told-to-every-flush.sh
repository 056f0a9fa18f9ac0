#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Of two concurrent flushes, the kernel tells only one that write-back has failed; the server fails
# the other one as well. In this test the data is really lost: the disk under the image's file
# system is a sparse file that has run out of space, and fdatasync() reports success, as it does to
# the flush that was not told. A direct write with FUA, which the file system may have put through
# the page cache, fails too once another request of this server has been told.
. "$(dirname "$0")/../../lib/functions.sh"

require strace mke2fs
require_python_nbd
mount_at "$dir/small" -t tmpfs -o size=8M tmpfs
truncate -s 64M "$dir/small/disk"
# The file system's own metadata needs no space that isn't allocated already.
quietly mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 "$dir/small/disk"
attach_loop "$dir/small/disk"
mount_at "$dir/mounted" "$loop_device"
image=$dir/mounted/disk.img
fallocate -l 32M "$image"
sync "$image"

cat >"$dir/client.py" <<'EOP'
import subprocess, sys, nbd

h = nbd.NBD()
h.connect_uri(sys.argv[1])
for offset in range(0, 24 << 20, 1 << 20):
    h.pwrite(b"x" * (1 << 20), offset)
# Now the data is lost, and nobody has been told.
subprocess.run(["sync", "-f", sys.argv[2]], stderr=subprocess.DEVNULL)
for what in h.flush, lambda: h.pwrite(b"y" * 512, 0, nbd.CMD_FLAG_FUA), h.flush:
    try:
        what()
        sys.exit("success")
    except nbd.Error as error:
        if error.errno not in ("EIO", "ENOSPC"):
            sys.exit(str(error))
EOP

for server_program in $servers; do
	for pages in keep drop; do
		start_server -- "$image" engine=threads direct-io=off page-cache=$pages
		trace -e trace=fdatasync -e inject=fdatasync:retval=0
		quietly "$python" "$dir/client.py" "$uri" "$dir/mounted"
		expect_log 'flush failed: .*: an earlier write-back failed; start the server again'
		untrace
		stop_server
		grep -q '= 0 (INJECTED)' "$dir/calls" || fail "no fdatasync() said that all is well"
		rm -f "$dir/calls"
	done
done

cat >"$dir/direct.py" <<'EOP'
import subprocess, sys, nbd

h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"x" * 4096, 0, nbd.CMD_FLAG_FUA)
# These writes come from a program that uses the page cache.
subprocess.run(["dd", "if=/dev/urandom", "of=" + sys.argv[3], "bs=1M", "seek=4", "count=24", "conv=notrunc"], stderr=subprocess.DEVNULL)
subprocess.run(["sync", "-f", sys.argv[2]], stderr=subprocess.DEVNULL)
for attempt in range(3):
    try:
        h.pwrite(b"y" * 4096, 0, nbd.CMD_FLAG_FUA)
        sys.exit(f"success, attempt {attempt}")
    except nbd.Error as error:
        if error.errno not in ("EIO", "ENOSPC"):
            sys.exit(str(error))
EOP

for server_program in $servers; do
	# All blocks of the file system can be written again.
	rm "$image"
	fstrim "$dir/mounted"
	fallocate -l 32M "$image"
	sync "$image"
	start_server -- "$image" engine=threads direct-io=on
	quietly "$python" "$dir/direct.py" "$uri" "$dir/mounted" "$image"
	expect_log 'write of 4096 bytes at offset 0 failed: .*: an earlier write-back failed; start the server again'
	stop_server
done
