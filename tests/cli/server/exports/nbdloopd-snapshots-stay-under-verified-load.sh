#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes to an image and verifies what it reads back, a snapshot that is held has the same
# bytes each time it is read: by a copy on ext4, by a clone on XFS. NBDLOOP_HOLD_SECONDS says how
# long fio writes (2): minutes, for a run by hand.
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

hold() # IMAGE METHOD
{
	local image=$1 method=$2 before times=0
	head -c 40M /dev/urandom >"$image"
	truncate -s 64M "$image"
	start_nbdloopd --control "$dir/control" --export "disk=$image"
	expect_equal "method" "$method" "$(control "$dir/control" "snapshot then" snapshot.method)"
	before=$(sha256sum <"$image")
	spawn load fio --name=load --ioengine=nbd --uri="nbd+unix:///disk?socket=$sock" --rw=randwrite --bs=12k --iodepth=16 \
		--size=64M --time_based --runtime="$seconds" --verify=crc32c --verify_fatal=1 --verify_backlog=64 \
		--serialize_overlap=1 --verify_state_save=0
	while [ "$times" -lt 2 ] || is_running "$pid"; do
		expect_equal "the snapshot's hash" "$before" "$(hash_of then)"
		times=$((times + 1))
	done
	end_process load
	[ "$end_status" = 0 ] || fail "fio has found what it hasn't written"
	expect_equal "the snapshot's hash at the end" "$before" "$(hash_of then)"
	[ "$(hash_of disk)" != "$before" ] || fail "fio has changed nothing"
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
