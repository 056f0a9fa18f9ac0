#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes to an image in Ceph and verifies it, the monitor is gone for some seconds, an
# OSD is killed and started again, and the cluster is full: no request fails, nothing is lost, and a
# snapshot that is served meanwhile does not change.
# By hand: CEPH_AWAY=30 leaves the monitor away for that many seconds.
. "$(dirname "$0")/../lib/functions.sh"
. "$lib/ceph.sh"

require fio jq qemu-io
in_cluster 280 --osds 3
away=${CEPH_AWAY:-3}
size=32M

load_rounds()
{
	cd "$dir" || return 1 # fio leaves a file
	until [ -e stop ]; do
		fio --name=load --ioengine=nbd --uri="$load_uri" --rw=randwrite --bsrange=4k-16k --size=$size --iodepth=8 --verify=crc32c \
			--verify_backlog=64 --verify_fatal=1 --verify_state_save=0 --time_based --runtime=3 || return 1
	done
}

writes()
{
	control "$dir/server.control" status exports.0.counters.writes
}

has_written() # COUNT
{
	! process_gone "${process_pids[load]}" || fail "fio has ended"
	[ "$(writes)" -ge "$1" ]
}

load_goes_on() # WHEN
{
	wait_until "fio writes $1" has_written $(($(writes) + 200))
}

load_stands_still()
{
	local before
	before=$(writes)
	sleep 1
	[ "$(writes)" = "$before" ]
}

snapshot_is_the_same()
{
	timeout $((60 * time_factor)) qemu-io -r -f raw -c "read -P 1 0 $size" "$snapshot_uri" >"$dir/read.log" 2>&1 ||
		fail "the snapshot can't be read $1"
	! grep -E 'failed|error' "$dir/read.log" || fail "the snapshot has changed $1"
}

# From this share of its space on, an OSD is full.
full_from() # SHARE
{
	local ratio
	for ratio in nearfull backfillfull full; do
		ceph_patiently osd "set-$ratio-ratio" "$1"
	done
}

quietly rbd create --no-progress --size $size rbd/disk
start_nbdloopd --control "$dir/server.control" rbd:rbd/disk
load_uri=$uri
quietly qemu-io -f raw -c "write -P 1 0 $size" "$load_uri"
quietly rbd snap create --no-progress rbd/disk@before
server=snapshot start_nbdloopd rbd:rbd/disk@before
server=snapshot server_files
snapshot_uri=$uri
server_files
spawn load load_rounds
load_goes_on "at the start"

# The monitor first: after an OSD's return, placement groups wait for it, and writes with them.
"$lib/ceph-cluster" --mon-kill
sleep "$away"
load_goes_on "without a monitor"
"$lib/ceph-cluster" --mon-start
poll_for 60 osds_are_up 3 || fail "the monitor doesn't come back: $(tail -n 5 "$CEPH_DIR/mon.out")"
load_goes_on "with the monitor that has come back"

"$lib/ceph-cluster" --osd-kill 0
poll_for 60 osds_are_up 2 || fail "the monitor doesn't notice that an OSD is gone"
load_goes_on "with two of three OSDs"
snapshot_is_the_same "with two of three OSDs"
"$lib/ceph-cluster" --osd-start 0
poll_for 60 osds_are_up 3 || fail "the OSD doesn't come back: $(tail -n 5 "$CEPH_DIR/osd0.out")"
load_goes_on "with the OSD that has come back"

# A full cluster refuses no write, but lets it wait, and answers reads.
full_from 0.001
wait_until "writes wait while the cluster is full" load_stands_still
snapshot_is_the_same "while the cluster is full"
! process_gone "${process_pids[load]}" || fail "a full cluster makes a write fail"
full_from 0.95
load_goes_on "when the cluster has space again"

touch "$dir/stop"
poll_for 60 process_gone "${process_pids[load]}" || fail "fio does not end"
end_process load
expect_equal "fio's status" 0 "$end_status"
snapshot_is_the_same "at the end"
stop_server
server=snapshot stop_server
reject_log fenced
