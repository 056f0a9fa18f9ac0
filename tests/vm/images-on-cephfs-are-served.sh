#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An image file on CephFS, by the kernel's client, behaves as nbdloop-cluster(7) says. Its lock
# keeps out the servers of other mounts. Direct I/O works. The other mount sees flushed data, and
# reads discarded data as zeroes. A device continues while the metadata server is away or is
# replaced, and waits while the OSD stands still. A mount that the cluster has evicted writes
# nothing more, and its server answers no request with success.
#
# vm: host ceph-beside
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/host.sh"

require fio qemu-io

# Two clients of the cluster, as on two machines.
mount_client() # NUMBER
{
	local monitor
	monitor=$(sed -n 's/^mon host = \[v1:\(.*\)\]$/\1/p' /run/vm/ceph.conf)
	mkdir "$dir/c$1"
	quietly mount -i -t ceph "$monitor:/" "$dir/c$1" -o name=admin,noshare
	on_exit umount -f -l "$dir/c$1"
}

# Prints how many requests the device has done.
done_by_device()
{
	local figures
	read -ra figures <"/sys/block/${device#/dev/}/stat"
	echo $((figures[0] + figures[4]))
}

has_done() # COUNT
{
	expect_load
	[ "$(done_by_device)" -ge "$1" ]
}

load_goes_on() # WHEN
{
	poll_for 20 has_done $(($(done_by_device) + 50)) || fail "fio doesn't write $1"
}

load_stands_still()
{
	local before
	expect_load
	before=$(done_by_device)
	sleep 2
	[ "$(done_by_device)" = "$before" ]
}

# That takes a while: the server tries for five seconds, since the other server may be ending.
second_server_is_refused() # WHEN
{
	server=refused refuse_nbdloopd 1 -U "$dir/refused.sock" "$dir/c2/disk.img"
	grep -q 'no exclusive lock, because another program is using the image' "$dir/refused.log" ||
		fail "a second server is refused for another reason $1"
}

# Whether the image has this byte there, everywhere in a MiB.
second_mount_has() # BYTE [MIB]
{
	[ "$(dd if="$dir/c2/disk.img" bs=1M count=1 skip="${2:-0}" status=none | tr -d "\\00$1" | wc -c)" = 0 ]
}

modprobe nbd
modprobe ceph || skip "this kernel has no client of CephFS"
reach_host
lead_loopback_to_host
host fs new
mount_client 1
mount_client 2
truncate -s 48M "$dir/c1/disk.img"

# ---- a device

nbdloop_attach --direct-io=on "$dir/c1/disk.img"
expect_equal "direct I/O" true "$(direct_io_of "$device")"
second_server_is_refused "at the start"
quietly qemu-io -f raw -t none -c "write -P 1 0 8M" -c flush "$device"
second_mount_has 1 || fail "what was flushed is not seen on the other mount"
expect_equal "bytes of the image in this machine's page cache" 0 "$(cached_bytes "$dir/c1/disk.img")"

quietly qemu-io -f raw -t none -c "discard 4M 4M" "$device"
second_mount_has 1 3 || fail "too much was discarded"
second_mount_has 0 4 || fail "what was discarded doesn't read as zeroes on the other mount"

start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
host mds kill
load_goes_on "without a metadata server"
sleep 3
load_goes_on "without a metadata server for some seconds"
host mds start
load_goes_on "with another metadata server"
second_server_is_refused "after the metadata server is another process"
load_goes_on "with another metadata server for some seconds"
host osd pause
wait_until "requests wait while the OSD stands still" load_stands_still
sleep 5
host osd continue
load_goes_on "with the OSD that goes on"
end_load
nbdloop_detach "$device"

# ---- a mount that is evicted

start_on() # NUMBER
{
	server=s$1 start_nbdloopd --control "$dir/s$1.control" --direct-io=on "$dir/c$1/disk.img"
}

write_by() # NUMBER BYTE
{
	quietly qemu-io -f raw -c "write -P $2 0 1M" -c flush "nbd+unix:///?socket=$dir/s$1.sock"
}

s1_fails() # QEMU-IO-COMMAND
{
	must_fail qemu-io -f raw -c "$1" -c flush "nbd+unix:///?socket=$dir/s1.sock"
}

# Prints the first mount's address, by which the cluster knows it.
address_of_first()
{
	local id
	id=$("$python" -c 'import os, sys; print(os.getxattr(sys.argv[1], "ceph.client_id").decode())' "$dir/c1")
	sed -n 's/^instance: .* (.)\([^ ]*\)$/\1/p' "$dir"/debug/ceph/*."$id"/status
}

mkdir "$dir/debug"
mount_at "$dir/debug" -t debugfs debugfs
address=$(address_of_first)
[ -n "$address" ] || fail "the first mount has no address: $(cat "$dir"/debug/ceph/*/status)"
start_on 1
write_by 1 2
second_server_is_refused "before the first mount is evicted"
host ceph osd blocklist add "$address"
start_on 2
write_by 2 3
s1_fails "write -P 4 0 1M"
s1_fails "read 0 1M"
grep -q 'c1/disk.img: write of .* failed' "$dir/s1.log" || fail "the log does not tell that a write failed"
second_mount_has 3 || fail "the evicted mount has written"
write_by 2 5
second_mount_has 5 || fail "the second server doesn't go on"
server=s1 stop_server
server=s2 stop_server
