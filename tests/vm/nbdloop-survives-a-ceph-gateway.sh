#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A device has two gateways to one image in Ceph, as nbdloop-cluster(7) says. The gateway in use is
# killed again and again while fio writes and verifies: the device continues with the other one, and
# no request fails. A gateway that is paused is fenced by the other one, and none of its writes
# arrives when it continues. The cluster and the gateways are beside this machine, and so as fast as
# anywhere.
#
# By hand: NBDLOOP_ROUNDS=20 for so many kills. Each prints how long the device answered no read,
# and no write. Writes also wait for Ceph, which fences the killed gateway.
#
# vm: host ceph-gateways
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/host.sh"

require fio
rounds=${NBDLOOP_ROUNDS:-2}

remote_is() # NAME
{
	[ "$(nbdloop list -n -O REMOTE "$device" | tr -d ' ')" = "10.0.2.2:${ports[$1]}" ]
}

wait_for_gateway() # NAME
{
	poll_for 40 remote_is "$1" || fail "gateway $1 isn't in use"
	expect_load
}

reach_host
declare -A ports=() other=([a]=b [b]=a)
read -r ports[a] ports[b] </run/vm/host.ready

# The device's pause is in $dir/times then.
has_paused() # FROM TO
{
	"${answers[@]}" pause "$1" "$2" "$dir/probe" >"$dir/times" 2>&1
}

# The manual's command, with the gateways' addresses here.
attach_as_told() # SECTION [OPTION...]
{
	local command
	"$python" "$lib/examples.py" "$lib/../../man/nbdloop-cluster.pod" "$dir" "$1"
	read -ra command < <(grep '^nbdloop attach ' "$dir/01") || fail "the manual has no such command"
	command=("${command[@]/a.example/10.0.2.2:${ports[a]}}")
	quietly "${command[@]/b.example/10.0.2.2:${ports[b]}}" "${@:2}"
	device=/dev/nbd0
	wait_until "the device is there" device_is_there "$device"
}

mark_kernel_log
modprobe nbd
attach_as_told "One gateway"
quietly dd if=/dev/urandom of="$device" bs=1M count=1 oflag=direct
nbdloop_detach "$device"
attach_as_told "Two gateways" --timeout 2
remote_is a || fail "the preferred gateway isn't the first"

# Another program uses the last MiB, to measure how long the device did not answer.
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
answers=("$python" "$VM_SOURCE/device_answers.py")
spawn probe "${answers[@]}" probe "$device" $((63 << 20)) "$dir/probe"
in_use=a
for ((i = 0; i < rounds; i++)); do
	next=${other[$in_use]}
	sleep "1.$((RANDOM % 10))"
	killed=$(date +%s.%N)
	host kill "$in_use"
	wait_for_gateway "$next"
	moved=$(date +%s.%N)
	wait_until "reads and writes are answered" has_paused "$killed" "$moved"
	echo "kill $((i + 1)): $(cat "$dir/times")"
	host start "$in_use"
	in_use=$next
done

# This gateway has requests when it stops, and tries to carry them out when it continues.
next=${other[$in_use]}
host stop "$in_use"
wait_for_gateway "$next"
sleep 1
host continue "$in_use"
host fenced "$in_use"
sleep 1
expect_load
host end "$in_use"
host start "$in_use"
end_process probe TERM
expect_equal "status of the probe" 0 "$end_status"
end_load
! grep -E 'verify:|fio: .*error|err=[^ ]*[1-9]' "$dir/load.log" || fail "fio has found an error"
nbdloop_detach "$device"
host end a
host end b
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
