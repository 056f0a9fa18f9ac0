#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One image is inside another: a file on the file system on /dev/nbd0 is served as /dev/nbd1, which
# also has a file system. A program writes more data to that, through the page cache, than the
# machine has memory. Both servers run on that machine, with swap=on. The test ends, the files are
# right, and both file systems are clean. That holds with direct I/O, and with the inner image in
# the page cache, too.
#
# The outer server's write-back must never wait for the inner server's write-back, nor for the
# memory that this would free.
# vm: qemu user-mode Linux, with one processor, stood still twice beside other machines
# vm: memory 256M
# vm: disk 3G
# vm: limit 400
. "$(dirname "$0")/functions.sh"

writer=$(dirname "$0")/tree_of_data.py

outer_image=$dir/outer.img
outer=$dir/outer
inner_image=$outer/inner.img
inner=$dir/inner

stack() # INNER-DIRECT-IO
{
	local what="inner image with direct-io=$1"
	rm -f "$outer_image"
	truncate -s 1536M "$outer_image"
	server=outer start_server -- "$outer_image" swap=on contexts=8 depth=4 direct-io=on
	server=outer server_files
	attach /dev/nbd0 -b 4096
	quietly mkfs.ext4 -q -F /dev/nbd0
	mount_at "$outer" /dev/nbd0
	truncate -s 1G "$inner_image"
	server=inner start_server -- "$inner_image" swap=on contexts=8 depth=4 direct-io="$1"
	server=inner server_files
	attach /dev/nbd1 -b 4096
	expect_log "direct I/O $1"
	quietly mkfs.ext4 -q -F /dev/nbd1
	mount_at "$inner" /dev/nbd1
	spawn writer "$python" "$writer" "$inner" 230
	poll_for 60 process_gone "${process_pids[writer]}" || fail "$what: no progress: $(cat "$dir/writer.log")"
	end_process writer
	[ "$end_status" = 0 ] || fail "$what: $(cat "$dir/writer.log")"
	unmount "$inner"
	quietly e2fsck -f -n /dev/nbd1
	detach /dev/nbd1
	server=inner stop_server
	unmount "$outer"
	quietly e2fsck -f -n /dev/nbd0
	detach /dev/nbd0
	server=outer stop_server
	expect_quiet_kernel
	echo "$what: $SECONDS s"
}

mark_kernel_log
# The kernels divide the runs between them, since each run takes long.
if [ "$VM_LINUX" = 6.1 ]; then stack on; else stack off; fi
