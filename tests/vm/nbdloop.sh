# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the claims about the command nbdloop have in common; to be read after functions.sh.

[ -x "$top_builddir/tool/nbdloop" ] || skip "nbdloop was not built"
# Call the programs without those in wrapper/: a shell takes as long to start as the program that
# it starts.
PATH=$top_builddir/tool:$top_builddir/server:$PATH

detach_left_over()
{
	nbdloop detach --all >/dev/null 2>&1
}
on_exit detach_left_over

# --swap=raise raises the kernel's reserve of memory for good; the claims after this one find it as
# it was.
read -r reserve_before </proc/sys/vm/min_free_kbytes
put_reserve_back()
{
	[ "$(</proc/sys/vm/min_free_kbytes)" = "$reserve_before" ] || echo "$reserve_before" >/proc/sys/vm/min_free_kbytes
}
on_exit put_reserve_back

# Sets $device to the attached device. Warnings are in $dir/attach.log.
nbdloop_attach() # [OPTION...] IMAGE|URI [DEVICE]
{
	device=$(nbdloop attach --show "$@" 2>"$dir/attach.log") || fail "nbdloop attach $* fails"
	[ -b "$device" ] || fail "nbdloop attach $* prints \"$device\", which is no device"
	device_is_there "$device" || fail "nbdloop attach $*: $device has no size"
}

nbdloop_detach() # DEVICE...
{
	local gone
	nbdloop detach "$@" >"$dir/detach.log" 2>&1 || fail "nbdloop detach $* fails"
	for gone; do
		device_is_gone "$gone" || fail "$gone is still there after nbdloop detach"
	done
}

# Both attach the image with the same options: the devices have the same size, sector size,
# read-only flag, direct I/O if it was requested, and bytes.
like_losetup() # IMAGE OPTION...
{
	local image=$1 what="of $*" wanted seen
	shift
	attach_loop "$image" "$@"
	nbdloop_attach --force "$@" "$image"
	wanted=$(blockdev --getsize64 --getss --getro "$loop_device" | xargs)
	seen=$(blockdev --getsize64 --getss --getro "$device" | xargs)
	expect_equal "size, sector size, read-only $what" "$wanted" "$seen"
	quietly cmp "$loop_device" "$device"
	case " $* " in
	*direct-io*)
		wanted=$(losetup -n -O DIO "$loop_device" | tr -d ' ')
		expect_equal "direct I/O $what" "$wanted" "$(direct_io_of "$device" | sed 's/true/1/; s/false/0/')"
		;;
	esac
	detach_loop "$loop_device"
	nbdloop_detach "$device"
}

# The command must be refused with status 1, or $usage_status, and a line that matches.
nbdloop_refuses() # REGEX ARGUMENT...
{
	local wanted=$1 status=0
	shift
	timeout $((60 * time_factor)) nbdloop "$@" >"$dir/refused.out" 2>"$dir/refused.log" </dev/null || status=$?
	expect_equal "status of nbdloop $*" "${usage_status-1}" "$status"
	grep -qE -- "$wanted" "$dir/refused.log" || fail "nbdloop $* doesn't say: $wanted"
	[ ! -s "$dir/refused.out" ] || fail "nbdloop $* prints something, though it fails: $(cat "$dir/refused.out")"
}

# Prints the process ID of a device's server, from its control socket.
control_of() # DEVICE
{
	local backend
	backend=$(cat "/sys/block/${1#/dev/}/backend")
	echo "${backend#nbdloop:}"
}

server_pid() # DEVICE
{
	control "$(control_of "$1")" status pid
}

# Prints "true" or "false".
direct_io_of() # DEVICE
{
	control "$(control_of "$1")" status exports.0.direct_io | tr '[:upper:]' '[:lower:]'
}

# No attached device, process or file is left.
expect_nothing_left()
{
	local attached=(/sys/block/nbd*/pid) files=(/run/nbdloop/*) processes
	[ ! -e "${attached[0]}" ] || fail "still attached: ${attached[*]}"
	[ ! -e "${files[0]}" ] || fail "left in /run/nbdloop: ${files[*]}"
	processes=$(pgrep -lx 'nbdloop(d|-proxy)?' || true)
	[ -z "$processes" ] || fail "still running: $processes"
}

# ---- load

# fio runs round after round, and so needs no end time. It pauses between bursts: else it would take
# most of the machine's processors from what the claim is about.
load_rounds() # FIO-OPTION...
{
	while [ ! -e "$dir/stop" ]; do
		fio --name=load --rw=randwrite --ioengine=libaio --direct=1 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
			--verify_state_save=0 --thinktime=50ms --thinktime_blocks=16 --time_based --runtime=10 "$@" || return 1
	done
}

has_request_in_flight() # DEVICE
{
	local figures
	read -ra figures <"/sys/block/${1#/dev/}/stat"
	[ "${figures[8]}" -gt 0 ]
}

# A request is in flight when its server (a process) is killed; the command sees to the kill and the
# next server, which must get the request soon: the kernel looks at requests every 5 seconds. With a
# time limit it would do so after 30.
expect_request_soon_repeated() # PID COMMAND [ARGUMENT...]
{
	local since pid=$1
	shift
	kill -STOP "$pid"
	spawn writer dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none
	wait_until "a request is in flight" has_request_in_flight "$device"
	since=$SECONDS
	"$@"
	wait_until "the request is repeated" process_gone "${process_pids[writer]}"
	end_process writer
	expect_equal "status of the writer" 0 "$end_status"
	[ $((SECONDS - since)) -lt 20 ] || fail "the request was repeated only after $((SECONDS - since)) seconds"
}

device_wrote() # DEVICE COUNT
{
	local figures
	read -ra figures <"/sys/block/${1#/dev/}/stat"
	[ "${figures[4]}" -ge "$2" ]
}

# Has fio write and verify, on $device or in a file system on it, until end_load: as long as the
# rest of the test takes, however slow the machine is.
start_load() # FIO-OPTION...
{
	local figures
	rm -f "$dir/stop"
	read -ra figures <"/sys/block/${device#/dev/}/stat"
	spawn load load_rounds "$@"
	wait_until "fio writes" device_wrote "$device" $((figures[4] + 100))
}

expect_load()
{
	! process_gone "${process_pids[load]}" || fail "fio has ended too soon"
}

end_load()
{
	expect_load
	touch "$dir/stop"
	poll_for 60 process_gone "${process_pids[load]}" || fail "fio does not end"
	end_process load
	expect_equal "fio's status" 0 "$end_status"
}

no_process()
{
	! pgrep -x 'nbdloop(d|-proxy)?' >/dev/null
}
