#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With dir=, the server never opens a FIFO, a socket or a device node, neither for a client that
# names it nor for one that lists the names: opening such a file already has an effect on it.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo strace
images=$dir/images
mkdir -p "$images/below"
truncate -s 1M "$images/disk.img"
mkfifo "$images/fifo"
ln -s fifo "$images/link"
"$python" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$images/socket"
names=(fifo link socket below)
# A device node that no driver handles, if this user may create one.
! mknod "$images/device" c 240 250 2>"$dir/mknod.log" || names+=(device)

export_uri() # NAME
{
	echo "nbd+unix:///$1?socket=$sock"
}

# This process waits until somebody opens the FIFO for writing.
spawn reader cat "$images/fifo"

start_server -- dir="$images" engine=threads
trace -e trace=open,openat
for name in "${names[@]}"; do
	must_fail nbdinfo --size "$(export_uri "$name")"
done
expect_equal size 1048576 "$(nbdinfo --size "$(export_uri disk.img)")"
quietly nbdinfo --list --json "$uri"
untrace
stop_server

! process_gone "${process_pids[reader]}" || fail "the FIFO was opened: its reader has ended"
for name in "${names[@]}"; do
	what='is not a regular file or a block device'
	[ "$name" != below ] || what='is a directory, not an image'
	expect_log "$name: $what"
	! grep -v O_PATH "$dir/calls" | grep "/$name\"\|\"$name\"" || fail "$name was opened"
done
end_process reader TERM
