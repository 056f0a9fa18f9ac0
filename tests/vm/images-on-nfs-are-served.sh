#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An image file on NFS 4.2, as nbdloop-cluster(7) says: its lock keeps the servers of
# other machines away, the file server's own, too; direct I/O works; what was flushed is in the file
# server's file; discarded blocks are free there; while the file server is away or is restarted,
# requests wait, and other images are served; a file that is gone is an error.
#
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"

require fio qemu-io
exported=$dir/exported
nfsd=$dir/nfsd
lease=10 # seconds; the shortest that there is

# ---- the file server is this machine, and each client another one, with a network and a name of
# its own

make_client() # NUMBER
{
	local name=nbdloop-c$1
	ip netns add "$name"
	on_exit ip netns delete "$name"
	ip link add "cable$1" type veth peer name cable netns "$name"
	ip address add "10.99.$1.1/24" dev "cable$1"
	ip link set "cable$1" up
	ip -n "$name" address add "10.99.$1.2/24" dev cable
	ip -n "$name" link set cable up
}

mount_on_client() # NUMBER
{
	mkdir "$dir/c$1"
	# shellcheck disable=SC2016 # for the inner shell
	quietly unshare --uts sh -c 'hostname "$1" && exec nsenter --net="/run/netns/$1" mount -i -t nfs4 -o "$2" "$3" "$4"' sh \
		"nbdloop-c$1" "vers=4.2,addr=10.99.$1.1,clientaddr=10.99.$1.2" "10.99.$1.1:/" "$dir/c$1"
	on_exit umount -f -l "$dir/c$1"
}

# What rpc.mountd would answer, the kernel is told beforehand: who the clients are, what they get
# (insecure, no_subtree_check, fsid=0), and that this is the root of what they see.
tell_exports()
{
	local forever=2147483647 i
	for i in 1 2; do
		echo "nfsd 10.99.$i.2 $forever client" >/proc/net/rpc/auth.unix.ip/channel
	done
	echo "client $exported $forever $((0x2 | 0x400 | 0x2000)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
	printf 'client 1 \\x00000000 %s %s\n' "$forever" "$exported" >/proc/net/rpc/nfsd.fh/channel
}

start_file_server()
{
	echo "-2 -3 +4" >"$nfsd/versions"
	echo $lease >"$nfsd/nfsv4leasetime"
	echo $lease >"$nfsd/nfsv4gracetime"
	echo "$dir/recovery" >"$nfsd/nfsv4recoverydir"
	echo "tcp 2049" >"$nfsd/portlist"
	tell_exports
	echo 4 >"$nfsd/threads"
}

# No client has anything to reclaim.
end_grace()
{
	echo Y >"$nfsd/v4_end_grace"
}

stop_file_server()
{
	[ ! -e "$nfsd/threads" ] || echo 0 >"$nfsd/threads"
}

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

# Whether the file server's file has this byte everywhere in its first MiB.
file_has() # BYTE
{
	[ "$(head -c 1M "$exported/disk.img" | tr -d "\\00$1" | wc -c)" = 0 ]
}

modprobe nfsd
modprobe nfsv4 || skip "this kernel has no NFS client"
mkdir "$exported" "$nfsd" "$dir/recovery"
truncate -s 16M "$exported/disk.img" "$dir/local.img"
mount -t nfsd nfsd "$nfsd"
on_exit umount "$nfsd"
on_exit stop_file_server
make_client 1
make_client 2
start_file_server
end_grace
mount_on_client 1
mount_on_client 2

server=one start_nbdloopd --control "$dir/one.control" --direct-io=on --export "disk=$dir/c1/disk.img" --export "local=$dir/local.img"
disk_uri="nbd+unix:///disk?socket=$dir/one.sock"
local_uri="nbd+unix:///local?socket=$dir/one.sock"
grep -q 'c1/disk.img: .* direct I/O on' "$dir/one.log" || fail "no direct I/O on NFS"
# That takes a while: it tries again and again, since the other one may be ending.
server=refused refuse_nbdloopd 1 -U "$dir/refused.sock" "$dir/c2/disk.img"
grep -q 'no exclusive lock, because another program is using the image' "$dir/refused.log" ||
	fail "another machine's server is refused for another reason"
quietly qemu-io -f raw -c "write -P 1 0 8M" -c flush "$disk_uri"
file_has 1 || fail "what was flushed is not in the file server's file"
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
