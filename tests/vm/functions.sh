# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What every claim of tests/vm begins with:
#
#	. "$(dirname "$0")/functions.sh"
#
# The functions of tests/lib/functions.sh, and those that need a kernel with an NBD client.  $dir is
# on the guest's first drive.  Also set: VM_SERIES (6.1, 6.12 or uml), VM_LINUX (6.1
# or 6.12), VM_BOOT (1, or 2 in the second boot), VM_SERVER (what start_server starts).

# Under emulation everything takes several times as long.
emulation=6
[ "$VM_SERIES" != uml ] || emulation=1
NBDLOOP_TIME_FACTOR=$((${NBDLOOP_TIME_FACTOR:-1} * emulation))
# Emulated, tests that concern each engine run with all of them on the newer kernel only.
[ "$VM_SERIES" != 6.1 ] || LOOP_ENGINES=${LOOP_ENGINES:-io_uring}
. "$(dirname "${BASH_SOURCE[0]}")/../lib/functions.sh"
server_program=$VM_SERVER
# A handshake with TLS may take an emulated machine longer than nbdloopd's 10 seconds.
nbdloopd_options=(--handshake-limit=$((10 * NBDLOOP_TIME_FACTOR)))

# A device that is still attached keeps the server and the image's file system in use.
declare -A attached=()
detach_all()
{
	local device
	for device in "${!attached[@]}"; do
		nbd-client -d "$device" >/dev/null 2>&1
	done
}
on_exit detach_all

device_sectors() # DEVICE
{
	cat "/sys/block/${1#/dev/}/size"
}

device_is_there() # DEVICE
{
	[ "$(device_sectors "$1")" -gt 0 ]
}

# Unloading the driver removes all of its devices.
device_is_gone() # DEVICE
{
	local size
	[ -e "/sys/block/${1#/dev/}/size" ] || return 0
	size=$(device_sectors "$1" 2>/dev/null) || return 0
	[ ! -e "/sys/block/${1#/dev/}/pid" ] && [ "$size" -eq 0 ]
}

# Attaches the export of $sock, or of the words in $nbd_server (such as "127.0.0.1 10809"), and
# waits until the device has its size.
nbd_server=()
attach() # DEVICE [NBD-CLIENT-OPTION...]
{
	local device=$1 from=(-unix "$sock")
	shift
	[ ${#nbd_server[@]} -eq 0 ] || from=("${nbd_server[@]}")
	[ -e "$device" ] || modprobe nbd || fail "there is no module nbd"
	# nbd-client's default timeout, 30 seconds, is short for an emulated machine.
	nbd-client "${from[@]}" "$device" -timeout 600 "$@" >"$dir/nbd-client.log" 2>&1 ||
		fail "nbd-client ${from[*]} $device $* fails"
	attached[$device]=1
	wait_until "$device has a size" device_is_there "$device"
}

# Each connection has a queue of its own in the kernel, which shows here if a processor sends
# requests to it: at most as many queues as processors are in use.
expect_connections() # DEVICE COUNT
{
	local queues=("/sys/block/${1#/dev/}/mq"/*) count=$2
	[ "$count" -le "$(nproc)" ] || count=$(nproc)
	expect_equal "connections in use" "$count" ${#queues[@]}
}

detach() # DEVICE
{
	nbd-client -d "$1" >"$dir/nbd-client.log" 2>&1 || fail "nbd-client -d $1 fails"
	unset "attached[$1]"
	wait_until "$1 is detached" device_is_gone "$1"
}

# Prints the kernel's messages since a moment: mark_kernel_log; ...; kernel_log
mark_kernel_log()
{
	kernel_log_start=$(dmesg | wc -l)
}

kernel_log()
{
	dmesg | tail -n +$((kernel_log_start + 1))
}

# Cuts the power: nothing is written back, and no driver is told. The code after this runs in the
# next boot.
power_cut()
{
	: >/run/vm/power-cut
	echo b >/proc/sysrq-trigger
	sleep 60
	fail "the machine did not stop"
}

# Prints the number of interrupts of an NVMe drive's queues for reads and writes; q0 is the
# administration queue.
interrupts() # DEVICE
{
	awk -v queue="^$(sed 's|/dev/\(nvme[0-9]*\)n.*|\1|' <<<"$1")q[1-9]" \
		'$NF ~ queue {for (i = 2; i <= 3; i++) n += $i} END {print n + 0}' /proc/interrupts
}

# Prints the checksums of a tree of files, as a list that can be compared.
tree_sums() # DIRECTORY
{
	(cd "$1" && find . -xdev -type f -print0 | sort -z | xargs -0 sha256sum)
}

# Undoes mount_at.
unmount() # DIRECTORY
{
	local registered i
	registered=$(printf '%q ' umount -l "$1")
	quietly umount "$1"
	for i in "${!exit_commands[@]}"; do
		[ "${exit_commands[$i]}" != "$registered" ] || exit_commands[i]=true
	done
}

# Since mark_kernel_log, no request of the device has failed and no file system has complained.
expect_quiet_kernel()
{
	local complaints='I/O error|timed out|Dead connection|Receive (control|data) failed|Other side returned error'
	complaints+='|EXT4-fs (error|warning)|XFS .*([Cc]orrupt|error)|BTRFS (error|critical|warning)|FAT-fs .*error'
	! kernel_log | grep -E "$complaints" >"$dir/kernel.log" || fail "the kernel complained"
}

# Creates a device of the device mapper, /dev/mapper/NAME. No udev runs that would create its node.
export DM_DISABLE_UDEV=1
make_mapped() # NAME TABLE
{
	dmsetup create "$1" --table "$2" >"$dir/dmsetup.log" 2>&1 ||
		fail "the device mapper takes no such device: $2"
	on_exit remove_left_over "$1"
}

remove_left_over() # NAME
{
	[ ! -e "/dev/mapper/$1" ] || dmsetup remove --force "$1"
}

# Replaces the table of such a device while it is in use.
change_mapped() # NAME TABLE
{
	{
		dmsetup suspend --nolockfs "$1" && dmsetup load "$1" --table "$2" && dmsetup resume "$1"
	} >"$dir/dmsetup.log" 2>&1 || fail "the device $1 takes no such table: $2"
}

# Prints the device of the Nth line "# vm: drive", counted from 1. The kernel probes all drives at
# once: the order of their names is a matter of luck.
drive_device() # NUMBER
{
	local serial
	if [ "$VM_SERIES" = uml ]; then
		printf '/dev/ubd%b\n' "\\x$((61 + $1))"
		return
	fi
	serial=$(grep -lxE "drive$1 *" /sys/block/nvme*/device/serial) || fail "there is no drive $1"
	echo "/dev/$(cut -d / -f 4 <<<"$serial")"
}

# Prints the number of acknowledged writes of tests/vm/generations.py.
acknowledged() # RECORD
{
	if [ -e "$1" ]; then od -An -v -td8 -w8 "$1"; fi | awk '{n += $1} END {print n + 0}'
}
