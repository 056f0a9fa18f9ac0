#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `nbdloop attach rbd:POOL/IMAGE' makes a device of an image in Ceph, with a server of its own, like
# that of a file. The server is killed while fio writes and verifies, and no request fails. The
# device is listed, resized, detached, attached read-only, and attached from the table.
#
# What is not possible is refused with the reason. So are a second device, and a cluster that is
# away, in the time that the manual says. If another client has fenced the server, or has had the
# image while there was no server, the device gets no other server, and writes nothing any more.
#
# vm: host ceph-beside
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/host.sh"

require fio nbdsh
export NBDLOOP_MODULES=$top_builddir/engine
conf=/run/vm/ceph.conf

source_is() # IMAGE
{
	[ "$(nbdloop list -n -O BACK-FILE "$device" | tr -d ' ')" = "$1" ]
}

server_is_another() # PROCESS
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ "$now" != "$1" ]
}

has_the_lock()
{
	[ "$(control "$(control_of "$device")" status exports.0.ceph.lock_owner)" = true ]
}

find_guard()
{
	guard=$(nbdloop list -n -O GUARD "$device" 2>/dev/null | tr -d ' ')
}

kill_guard()
{
	find_guard
	kill -KILL "$guard"
	wait_until "the guard is gone" process_gone "$guard"
}

lock_address()
{
	control "$(control_of "$device")" status exports.0.ceph.lock_address
}

# The server fenced that client because it had the lock, not because Ceph noticed that it was gone:
# that would take 30 seconds.
fenced_by_name() # ADDRESS
{
	grep -rqsF "fenced the client $1, which had the image's lock before (ceph-fence)" "$dir" --include='*.log'
}

has_taken_the_place() # ADDRESS
{
	has_the_lock || fail "the next server doesn't have the lock"
	wait_until "the log tells that the client $1 was fenced" fenced_by_name "$1"
}

spawn syslog busybox syslogd -n -O "$dir/syslog.log"
wait_until "the system log is there" test -S /dev/log
reach_host
lead_loopback_to_host
mark_kernel_log
modprobe nbd

# What is not possible.
usage_status=2 nbdloop_refuses '--swap is not possible with rbd:rbd/disk: .*memory' attach --ceph-conf=$conf --swap rbd:rbd/disk
usage_status=2 nbdloop_refuses '--nooverlap is not possible with rbd:rbd/disk: ' attach --ceph-conf=$conf --nooverlap rbd:rbd/disk
nbdloop_refuses 'direct-io=on .*Ceph' attach --ceph-conf=$conf --direct-io=on rbd:rbd/disk
nbdloop_refuses 'poll=on .*Ceph' attach --ceph-conf=$conf --poll=on rbd:rbd/disk
usage_status=2 nbdloop_refuses '--ceph-user is for images in Ceph' attach --ceph-user=admin /etc/passwd
nbdloop_refuses 'there is no such image' attach --ceph-conf=$conf rbd:rbd/other
nbdloop_refuses 'ceph-conf=FILE names another file' attach --ceph-conf=/nowhere rbd:rbd/disk

nbdloop_attach --ceph-conf=$conf rbd:rbd/disk
expect_equal "size" $((64 << 20)) "$(blockdev --getsize64 "$device")"
source_is rbd:rbd/disk || fail "nbdloop list doesn't name the image: $(nbdloop list)"

# It has the lock before the first write, and no second device gets the image.
has_the_lock || fail "the server serves without the lock"
nbdloop_refuses "the client $(lock_address) has the image's lock; end that client" attach --ceph-conf=$conf rbd:rbd/disk

# Its server dies, and the next server fences it: the guard knows which client of Ceph the dead
# server was, and so does another guard.
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
old=$(server_pid "$device")
address=$(lock_address)
kill -KILL "$old"
wait_until "another server serves the device" server_is_another "$old"
has_taken_the_place "$address"
address=$(lock_address)
quietly nbdloop replace-server "$device"
has_taken_the_place "$address"
address=$(lock_address)
kill_guard
kill -KILL "$(server_pid "$device")"
nbdloop adopt "$device" >"$dir/adopt.log" 2>&1 || fail "nbdloop adopt: $(cat "$dir/adopt.log")"
has_taken_the_place "$address"
end_load
old=$(server_pid "$device")
kill -TERM "$old"
wait_until "another server serves the device, after one that has ended by itself" server_is_another "$old"
has_the_lock || fail "the server after one that has ended by itself doesn't have the lock"

# A file system, which grows.
quietly mkfs.ext4 -q "$device"
mkdir "$dir/mnt"
mount "$device" "$dir/mnt"
cp -r /usr/include/linux "$dir/mnt/"
host rbd resize --size 96M rbd/disk
quietly nbdloop resize "$device"
expect_equal "size after resize" $((96 << 20)) "$(blockdev --getsize64 "$device")"
diff -r /usr/include/linux "$dir/mnt/linux" || fail "the files differ"
nbdloop_refuses 'mounted' detach "$device"
umount "$dir/mnt"
nbdloop_detach "$device"

# Without the lock, when no other client has the image.
host rbd snap create rbd/disk@then
for image in rbd:rbd/disk rbd:rbd/disk@then; do
	nbdloop_attach --ceph-conf=$conf --read-only "$image"
	expect_equal "read-only flag of $image" 1 "$(blockdev --getro "$device")"
	mount -o ro "$device" "$dir/mnt"
	diff -r /usr/include/linux "$dir/mnt/linux" || fail "the files of $image differ"
	umount "$dir/mnt"
	nbdloop_detach "$device"
done

# The table.
device=/dev/nbd3
echo "nbd3 rbd:rbd/disk ceph-conf=$conf,ceph-user=admin" >/etc/nbdloop.tab
quietly nbdloop start nbd3
quietly nbdloop start nbd3
source_is rbd:rbd/disk || fail "nbdloop start didn't attach the image"
quietly nbdloop stop nbd3
rm /etc/nbdloop.tab

# The cluster is away.
host mon kill
began=$SECONDS
nbdloop_refuses 'no monitor of the cluster has answered within 10 seconds' attach --ceph-conf=$conf rbd:rbd/disk
took=$((SECONDS - began))
[ "$took" -le $((25 * time_factor)) ] || fail "that took $took seconds"
expect_nothing_left
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"

# Another client takes the image. A next server would take the image back as soon as that client has
# left it. The kernel's repeated requests would then overwrite what the client wrote.
writes()
{
	dd if=/dev/urandom of="$device" bs=64k count=1 oflag=direct status=none 2>"$dir/dd.log"
}

host mon start
nbdloop_attach --ceph-conf=$conf rbd:rbd/disk
writes || fail "a write fails: $(cat "$dir/dd.log")"
host ceph osd blocklist add "$(lock_address)"
sleep 1 # for the OSD to hear of it
! writes || fail "a write succeeds after the server was fenced"
wait_until "the device ends" [ ! -e "/sys/block/${device#/dev/}/pid" ]

# Another client takes it, and leaves it, while there is neither guard nor server.
nbdloop_attach --ceph-conf=$conf rbd:rbd/disk
writes || fail "a write fails after the image was attached again: $(cat "$dir/dd.log")"
kill_guard
kill -KILL "$(server_pid "$device")"
dd if=/dev/zero of="$device" bs=64k count=1 oflag=direct status=none 2>/dev/null &
zeroing=$!
spawn other nbdloopd --ceph-conf=$conf --ceph-lock=start --force --unix "$dir/other.sock" rbd:rbd/disk
wait_until "another client serves the image" [ -S "$dir/other.sock" ]
quietly nbdsh -u "nbd+unix:///?socket=$dir/other.sock" -c 'h.pwrite(b"another!" * 512, 0); h.flush()'
end_process other TERM
nbdloop_refuses 'another client has had the image since .*; the device ends' adopt "$device"
! wait "$zeroing" || fail "a write of the device succeeds after another client has had the image"
wait_until "the device ends" [ ! -e "/sys/block/${device#/dev/}/pid" ]
nbdloop_attach --force --ceph-conf=$conf rbd:rbd/disk
[ "$(head -c 7 "$device")" = another ] || fail "what the other client wrote is gone"
nbdloop_detach "$device"
expect_nothing_left
