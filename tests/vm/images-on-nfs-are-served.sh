#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An image file on NFS 4.2 behaves as nbdloop-cluster(7) says. Its lock keeps out the servers of
# other machines, including the file server's own. Direct I/O works. Flushed data is in the file
# server's file, and discarded blocks are free there. While the file server is away or is restarted,
# requests wait, and other images are served. A removed file is an error.
#
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"
. "$VM_SOURCE/nfs.sh"

require fio qemu-io

# ---- the servers of images

load_rounds()
{
	cd "$dir" || return 1 # fio leaves a file
	until [ -e stop ]; do
		fio --name=load --ioengine=nbd --uri="$1" --rw=randwrite --bsrange=4k-64k --size=16M --iodepth=8 --verify=crc32c \
			--verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --thinktime=50ms --thinktime_blocks=16 --time_based \
			--runtime=2 || return 1
	done
}

writes()
{
	control "$dir/one.control" status exports.0.counters.writes
}

has_written() # COUNT
{
	! process_gone "${process_pids[load]}" || fail "fio has ended"
	[ "$(writes)" -ge "$1" ]
}

load_goes_on() # WHEN
{
	poll_for 20 has_written $(($(writes) + 50)) || fail "fio doesn't write $1"
}

load_stands_still()
{
	local before
	before=$(writes)
	sleep 2
	[ "$(writes)" = "$before" ]
}

other_image_is_served() # WHEN
{
	timeout $((20 * time_factor)) qemu-io -f raw -c "write -P 9 0 64k" "$local_uri" >"$dir/local.log" 2>&1 ||
		fail "an image that is not on NFS isn't served $1"
}

make_file_server disk.img
truncate -s 16M "$dir/local.img"

server=one start_nbdloopd --control "$dir/one.control" --direct-io=on --export "disk=$dir/c1/disk.img" --export "local=$dir/local.img"
disk_uri="nbd+unix:///disk?socket=$dir/one.sock"
local_uri="nbd+unix:///local?socket=$dir/one.sock"
grep -q 'c1/disk.img: .* direct I/O on' "$dir/one.log" || fail "no direct I/O on NFS"
# That takes a while: the server tries for five seconds, since the other server may be ending. Each
# time it asks the file server, which takes longer than the pause in between.
began=$SECONDS
server=refused refuse_nbdloopd 1 -U "$dir/refused.sock" "$dir/c2/disk.img"
grep -q 'no exclusive lock, because another program is using the image' "$dir/refused.log" ||
	fail "another machine's server is refused for another reason"
[ $((SECONDS - began)) -le 15 ] || fail "it is refused after $((SECONDS - began)) seconds"
quietly qemu-io -f raw -c "write -P 1 0 8M" -c flush "$disk_uri"
file_has disk.img 1 || fail "what was flushed is not in the file server's file"
expect_equal "bytes of the image in this machine's page cache" 0 "$(cached_bytes "$dir/c1/disk.img")"
before=$(blocks_used "$exported/disk.img")
quietly qemu-io -f raw -c "discard 4M 4M" "$disk_uri"
[ $((before - $(blocks_used "$exported/disk.img"))) -ge $((4 << 11)) ] || fail "discarded blocks are not free on the file server"

spawn load load_rounds "$disk_uri"
load_goes_on "at the start"
ip link set cable1 down
wait_until "requests wait while the file server is away" load_stands_still
other_image_is_served "while the file server is away"
ip link set cable1 up
load_goes_on "with the file server that is there again"
stop_file_server
sleep 1
start_file_server
load_goes_on "with the file server that was started again"
touch "$dir/stop"
poll_for 30 process_gone "${process_pids[load]}" || fail "fio does not end"
end_process load
expect_equal "fio's status" 0 "$end_status"

# The file is removed on the file server, which then forgets who had it open.
rm "$exported/disk.img"
stop_file_server
start_file_server
end_grace
must_fail qemu-io -r -f raw -c "read 0 64k" "$disk_uri"
grep -q 'c1/disk.img: read of .* failed' "$dir/one.log" || fail "the log does not tell that the file is gone"
other_image_is_served "after the file is gone"
server=one stop_server
