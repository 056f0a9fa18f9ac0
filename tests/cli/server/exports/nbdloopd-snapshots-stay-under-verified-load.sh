#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes to an image and verifies what it reads back, snapshots that are held have the
# same bytes each time they are read: by a copy on ext4, by a clone on XFS.  One was taken before
# fio began, and has what the image had; others are taken while it writes.  NBDLOOP_HOLD_SECONDS
# says how long fio writes (2): minutes, before a release.
. "$(dirname "$0")/../../../lib/functions.sh"

require fio nbdcopy mkfs.ext4 mkfs.xfs sha256sum
fio --enghelp=nbd >"$dir/enghelp" 2>&1 || skip "this fio has no engine for NBD"
seconds=${NBDLOOP_HOLD_SECONDS:-2}

hash_of() # EXPORT
{
	nbdcopy "nbd+unix:///$1?socket=$sock" - | sha256sum
}

is_running() # PID
{
	kill -0 "$1" 2>/dev/null
}

take() # SNAPSHOT METHOD
{
	expect_equal "method of $1" "$2" "$(control "$dir/control" "snapshot $1 export=disk" snapshot.method)"
}

has_unnamed_files() # PID COUNT
{
	# A file may be open twice, with and without direct I/O.
	[ "$(find "/proc/$1/fd" -lname '* (deleted)' -printf '%l\n' | sort -u | wc -l)" = "$2" ]
}

# Until half a second of writes has met the snapshot; the first ones are all new to it.
hold_late() # METHOD
{
	local first
	take late "$1"
	first=$(hash_of late)
	sleep 0.5
	expect_equal "the hash of a snapshot that was taken while fio wrote" "$first" "$(hash_of late)"
	control "$dir/control" "remove export=late" >"$dir/remove.log"
}

hold() # IMAGE METHOD
{
	local image=$1 method=$2 before server_pid
	head -c 20M /dev/urandom >"$image"
	truncate -s 32M "$image"
	start_nbdloopd --control "$dir/control" --export "disk=$image"
	server_pid=$pid
	take then "$method"
	before=$(sha256sum <"$image")
	spawn load fio --name=load --ioengine=nbd --uri="nbd+unix:///disk?socket=$sock" --rw=randwrite --bs=12k --iodepth=16 \
		--size=32M --time_based --runtime="$seconds" --verify=crc32c --verify_fatal=1 --verify_backlog=64 \
		--serialize_overlap=1 --verify_state_save=0
	while is_running "$pid"; do
		expect_equal "the snapshot's hash" "$before" "$(hash_of then)"
		hold_late "$method"
	done
	end_process load
	[ "$end_status" = 0 ] || fail "fio has found what it hasn't written"
	expect_equal "the snapshot's hash at the end" "$before" "$(hash_of then)"
	[ "$(hash_of disk)" != "$before" ] || fail "fio has changed nothing"
	wait_until "only one snapshot has a file" has_unnamed_files "$server_pid" 1
	control "$dir/control" "remove export=then" >"$dir/remove.log"
	wait_until "the snapshots' files are gone" has_unnamed_files "$server_pid" 0
	stop_server
	rm "$image"
}

on() # FILE-SYSTEM METHOD [MKFS-OPTION...]
{
	truncate -s 400M "$dir/$1.disk"
	quietly "mkfs.$1" -q "${@:3}" "$dir/$1.disk"
	attach_loop "$dir/$1.disk"
	mount_at "$dir/$1" -t "$1" "$loop_device"
	hold "$dir/$1/disk.img" "$2"
}
on ext4 copy
on xfs reflink -m reflink=1
