#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# poll=on on an NVMe drive with a poll queue, for a file on ext4 and for a whole drive. The drive
# serves a hundred reads through /dev/nbd0 without interrupts, and the server does not sleep for the
# drive: it sleeps once for each request, while it waits for the next. With poll=off there is an
# interrupt for each read, and mostly one more sleep. The line at the start and the status say which
# mode is in use. Every byte read is compared, also beside operations that the polled ring does not
# accept: writes, durable writes, syncs, discards and zeroes.
#
# A server that only says "polling on", or that waits in the kernel instead of polling, has
# interrupts or sleeps. If it puts operations on the polled ring that cannot be polled, it has
# errors, or waits for the drive's time limit.
# vm: nvme poll_queues=1
# vm: drive 64M
. "$(dirname "$0")/functions.sh"

count=120
io=$(dirname "$0")/device_io.py
disk=$(findmnt --noheadings --output SOURCE --target "$dir")
drive=$(drive_device 1)
image=$dir/disk.img
socket=$dir/control
# A unix socket also wakes a thread that waits for a request when the peer has read the reply: those
# sleeps can't be told from others.
server_listen=(-i 127.0.0.1 -p 10809)
nbd_server=(127.0.0.1 10809)

for device in "$disk" "$drive"; do
	expect_equal "poll queues of $device" 1 "$(cat "/sys/block/${device#/dev/}/queue/io_poll")"
done

# Prints the number of requests that the drive has completed.
completed() # DEVICE read|write
{
	awk -v field="$([ "$2" = read ] && echo 1 || echo 5)" '{print $field}' "/sys/block/${1#/dev/}/stat"
}

# Prints how often the server's threads slept, including those of io_uring.
sleeps() # PID
{
	awk '/^voluntary_ctxt_switches/ {n += $2} END {print n}' "/proc/$1/task"/*/status
}

# Sets interrupts_seen, completed_seen and sleeps_seen to the cost of $count requests.
cost() # DEVICE read|write
{
	local i c s
	i=$(interrupts "$1") c=$(completed "$1" "$2") s=$(sleeps "$server_pid")
	"$python" "$io" "$2" /dev/nbd0 "$dir/data" $count >"$dir/io.log" 2>&1 || fail "$what: $(cat "$dir/io.log")"
	s=$(($(sleeps "$server_pid") - s)) c=$(($(completed "$1" "$2") - c)) i=$(($(interrupts "$1") - i))
	interrupts_seen=$i completed_seen=$c sleeps_seen=$s
	echo "$what: of $count ${2}s, $c were served by the drive, with $i interrupts and $s sleeps of the server"
	[ "$c" -ge $count ] || fail "$what: only $c of $count ${2}s were the drive's"
}

# With one thread (-t 1), that thread does all of the work: no sleep is a wait for another thread.
serve() # FILE POLL [NBDKIT-OPTION...]
{
	local file=$1 poll=$2
	shift 2
	what="$file, poll=$poll"
	start_server "$@" -- "$file" poll="$poll" control="$socket"
	server_pid=$pid
	expect_log "$file: .*, direct I/O on .*, polling $poll,"
	expect_equal "poll in the status" "$([ "$poll" = on ] && echo true || echo false)" \
		"$(control "$socket" status exports.0.poll)"
	attach /dev/nbd0 -b 4096
}

end()
{
	detach /dev/nbd0
	stop_server
	reject_log 'error|failed|warning'
}

# The kernel hands operations on a file's dirty pages to a thread: this leaves no dirty pages.
fill() # FILE
{
	cp "$dir/data" "$1"
	sync
	drop_cache "$1"
}

is_polled() # FILE DEVICE
{
	fill "$1"
	serve "$1" on -t 1
	cost "$2" read
	# The kernel may write back other files of that disk meanwhile.
	[ "$interrupts_seen" -lt $((count / 4)) ] || fail "$what: it took $interrupts_seen interrupts"
	[ "$sleeps_seen" -lt $((count * 12 / 10)) ] || fail "$what: the server slept $sleeps_seen times"
	# Linux 6.6 and later don't poll for a write to a file.
	if [ "$1" = "$2" ]; then
		cost "$2" write
		[ "$interrupts_seen" -lt $((count / 4)) ] || fail "$what: writes took $interrupts_seen interrupts"
	fi
	end

	serve "$1" off -t 1
	cost "$2" read
	[ "$interrupts_seen" -gt $((count * 8 / 10)) ] ||
		fail "$what: there were only $interrupts_seen interrupts: nothing is proved"
	# Sleeps aren't counted here: on a busy machine the drive may finish before the server
	# sleeps.
	end

	serve "$1" on
	"$python" "$io" mixed /dev/nbd0 "$dir/data" "$RANDOM" >"$dir/io.log" 2>&1 || fail "$what: $(cat "$dir/io.log")"
	end
	cmp -n "$(stat -c %s "$dir/data")" "$dir/data" "$1" || fail "$what: $1 doesn't hold what was written"
	expect_quiet_kernel
}

# Linux 6.12 crashes when it polls for a device of the device mapper, whose queue has poll queues if
# its drive has them.
mapped_drive_is_not_polled()
{
	make_mapped mapped "0 $(blockdev --getsz "$drive") linear $drive 0"
	refuse_start -- /dev/mapper/mapped poll=on
	expect_log "/dev/mapper/mapped: poll=on is not possible: .*device.mapper"
	start_server -- /dev/mapper/mapped poll=auto control="$socket"
	quietly nbdcopy "$uri" "$dir/seen"
	expect_equal "poll in the status" false "$(control "$socket" status exports.0.poll)"
	stop_server
	expect_log "/dev/mapper/mapped: .*, polling off \(.*device.mapper"
	cmp -n "$(stat -c %s "$dir/data")" "$dir/data" "$dir/seen" || fail "the mapped drive's data is wrong"
	dmsetup remove mapped
}

mark_kernel_log
head -c 8M /dev/urandom >"$dir/data"
is_polled "$image" "$disk"
is_polled "$drive" "$drive"
server_listen=() nbd_server=()
mapped_drive_is_not_polled
