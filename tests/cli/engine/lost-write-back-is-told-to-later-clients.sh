#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# After buffered data could not be written back, every later flush of the image fails until the
# server is restarted: also for clients that connect after the last client has gone (nbdkit with
# dir=), and after the export was removed and added again.
. "$(dirname "$0")/../../lib/functions.sh"

require strace
require_python_nbd
mkdir "$dir/images"
truncate -s 1M "$dir/images/disk.img"
truncate -s 1M "$dir/images/other.img"
socket=$dir/control

cat >"$dir/client.py" <<'EOF2'
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"x" * 4096, 0)
h.flush()
h.shutdown()
EOF2

flush_succeeds() # EXPORT
{
	quietly "$python" "$dir/client.py" "nbd+unix:///$1?socket=$sock"
}

flush_fails() # EXPORT
{
	must_fail "$python" "$dir/client.py" "nbd+unix:///$1?socket=$sock"
	grep -q 'nbd_flush: .*Input/output error' "$dir/refused.log" || fail "something else has failed"
}

is_closed()
{
	! control "$socket" status exports.0.file >"$dir/closed.log" 2>&1
}

# While strace is attached, every fdatasync() of the server fails.
lose_data() # EXPORT
{
	trace -e trace=fdatasync -e inject=fdatasync:error=EIO
	flush_fails "$1"
	grep -q fdatasync "$dir/calls" || fail "nothing was written back"
	untrace
}

start_server -- dir="$dir/images" engine=threads direct-io=off control="$socket"
flush_succeeds disk.img
lose_data disk.img
expect_log 'every later flush of this image fails until the server is restarted'
for _ in 1 2; do
	wait_until "the image is closed" is_closed
	flush_fails disk.img
	expect_log 'disk.img: an earlier write-back failed: Input/output error'
done
flush_succeeds other.img
stop_server
start_server -- dir="$dir/images" engine=threads direct-io=off
flush_succeeds disk.img
stop_server

start_nbdloopd --control "$socket" --threads=1 --engine=threads --direct-io=off --export "other=$dir/images/other.img" \
	--export "disk=$dir/images/disk.img"
flush_succeeds disk
lose_data disk
expect_equal "what is removed" disk "$(control "$socket" "remove export=disk" removed)"
# The lock remains until the event loop has closed the image.
is_added()
{
	control "$socket" "add disk=$dir/images/disk.img" name >"$dir/added.log" 2>&1
}
wait_until "it can be added again" is_added
flush_fails disk
flush_succeeds other
stop_server
