# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What every script of tests/cli begins with:
#
#	. "$(dirname "$0")/../../lib/functions.sh"
#
# It makes the directory $dir, which is removed at the end together with every server, process
# and mount that the functions below started.  A script that succeeds prints nothing; one that
# fails shows the logs of its servers.
#
# From the environment (all optional):
#	LOOP_PLUGIN    the plugin under test (default: the one built in this tree)
#	LOOP_ENGINES   the engines to test (default: "io_uring aio threads")
#	LOOP_SERVERS   the servers, where a test runs on both (default: "nbdkit nbdloopd")
#	TMPDIR         where images are made; must be a real file system (default: /var/tmp)
#	KEEP           if set, $dir is kept
#	NBDLOOP_TIME_FACTOR  how much slower everything is (under valgrind)
set -eu -o pipefail
export LC_ALL=C
export PATH=$PATH:/usr/sbin:/sbin

lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top_builddir=$(cd "${top_builddir:-$lib/../..}" && pwd)
plugin=${LOOP_PLUGIN:-$top_builddir/plugins/loop/nbdkit-loop-plugin.so}
time_factor=${NBDLOOP_TIME_FACTOR:-1}
engines=${LOOP_ENGINES:-io_uring aio threads}
servers=${LOOP_SERVERS:-nbdkit nbdloopd}
# The distribution's Python, which finds the modules of its packages, rather than another one in
# PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
# Python may import the modules of tests/lib, and writes nothing into the source tree, which may be
# read-only.
export PYTHONPATH=$lib PYTHONDONTWRITEBYTECODE=1
# The script's own file in Python, if there is one.
own_python=$(realpath "${0%.sh}.py")

# Gives the service's user all rights to what will be made there, where servers have the settings of
# their unit (tests/service/run).
give_to_service() # DIRECTORY
{
	[ -z "${NBDLOOP_SERVICE-}" ] || [ ! -w "$1" ] || setfacl -m u:nbdloopd:rwx,d:u:nbdloopd:rwx "$1"
}

dir=$(mktemp -d "${TMPDIR:-/var/tmp}/nbdloop.XXXXXX")
chmod 755 "$dir" # some servers run as another user
# Servers with the settings of a unit have another user, too (tests/service/start).
export NBDLOOP_SERVICE_FILES=$dir
give_to_service "$dir"
declare -A process_pids=()
declare -A engines_missing=() loop_devices=()
exit_commands=()

# ---- how a test ends

fail() # TEXT...
{
	echo "$(basename "$0"): $*" >&2
	exit 1
}

skip() # REASON...
{
	echo "$(basename "$0"): skipped: $*" >&2
	exit 77
}

require() # COMMAND...
{
	local command
	for command; do
		command -v "$command" >/dev/null || skip "$command is not installed"
	done
}

require_root() # WHAT-FOR...
{
	[ "$(id -u)" = 0 ] || skip "needs root ($*)"
}

# Runs a command at the end of the script, last registered first.
on_exit() # COMMAND [ARGUMENT...]
{
	exit_commands+=("$(printf '%q ' "$@")")
}

show_logs()
{
	local file
	for file in "$dir"/*.log; do
		[ ! -s "$file" ] || { echo "--- $(basename "$file")" && tail -n 40 "$file"; }
	done
}

finish()
{
	local status=$? i
	set +e
	trap - EXIT
	trap '' PIPE # nobody may be reading any more, but much is still to be cleaned up
	if [ "$status" -eq 0 ] && [ ${#engines_missing[@]} -gt 0 ]; then
		echo "$(basename "$0"): skipped: no engine ${!engines_missing[*]} here; the others passed" >&2
		status=77
	fi
	if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
		show_logs >&2
	fi
	for i in "${!process_pids[@]}"; do
		kill "${process_pids[$i]}" 2>/dev/null
	done
	for i in "${!process_pids[@]}"; do
		poll_for 5 process_gone "${process_pids[$i]}" || kill -KILL "${process_pids[$i]}" 2>/dev/null
	done
	for ((i = ${#exit_commands[@]} - 1; i >= 0; i--)); do
		eval "${exit_commands[$i]}" >&2
	done
	for i in "${!loop_devices[@]}"; do
		losetup -d "$i"
	done
	[ -n "${KEEP-}" ] || rm -rf "$dir"
	exit "$status"
}
trap finish EXIT
trap 'fail "stopped by a signal, or took too long"' TERM INT HUP

# ---- waiting

# Returns true as soon as the command does, and false if it does not within SECONDS.
poll_for() # SECONDS COMMAND [ARGUMENT...]
{
	local end=$((SECONDS + $1 * time_factor))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

wait_until() # WHAT COMMAND [ARGUMENT...]
{
	local what=$1
	shift
	poll_for 60 "$@" || fail "waited 60 seconds in vain: $what"
}

# All programs of a user share this limit, and many tests run at once here.
require_lockable_memory()
{
	[ "$(id -u)" = 0 ] || [ "$(ulimit -l)" = unlimited ] ||
		skip "this user's programs share a limit of locked memory (ulimit -l)"
}

# Returns whether a server listens on a unix socket. The file exists a moment earlier.
listens() # PATH
{
	awk -v path="$1" '$4 == "00010000" && $8 == path { found = 1 } END { exit !found }' /proc/net/unix
}

process_gone() # PID
{
	! kill -0 "$1" 2>/dev/null
}

# ---- processes in the background

# Starts a process, with its output in $dir/NAME.log. It is killed at the end of the script if it
# still runs.
spawn() # NAME COMMAND [ARGUMENT...]
{
	local name=$1
	shift
	[ -z "${process_pids[$name]-}" ] || fail "the process $name runs already"
	"$@" >"$dir/$name.log" 2>&1 </dev/null &
	pid=$!
	process_pids[$name]=$pid
}

# Waits for the process to end, after sending it a signal if one is given; sets end_status to its
# exit status.
end_process() # NAME [SIGNAL]
{
	local pid=${process_pids[$1]-}
	[ -n "$pid" ] || fail "the process $1 does not run"
	[ -z "${2-}" ] || kill "-$2" "$pid" || fail "the process $1 is gone already"
	# At once after SIGKILL, so that bash does not report the death.
	[ "${2-}" = KILL ] || wait_until "the end of the process $1" process_gone "$pid"
	end_status=0
	wait "$pid" 2>/dev/null || end_status=$?
	unset "process_pids[$1]"
}

. "$lib/servers.sh"

# ---- nbdloop

require_nbdloop()
{
	[ -x "$top_builddir/tool/nbdloop" ] || skip "nbdloop is not built"
}

has_http()
{
	grep -q '^#define HAVE_MICROHTTPD' "$top_builddir/config.h"
}

require_http()
{
	has_http || skip "nbdloopd is built without libmicrohttpd"
}

# Makes nbdloop's list and status read a copy of a recorded machine: nbd0, nbd1 and nbd10 are
# attached, nbd2 is not.
use_recorded_system()
{
	export NBDLOOP_SYSROOT=$dir/system
	"$python" "$lib/system_tree.py" make "$lib/system_tree.txt" "$NBDLOOP_SYSROOT"
}

# ---- system calls

is_traced() # PID
{
	! grep -q '^TracerPid:[[:space:]]0$' "/proc/$1/task/"*/status
}

# Makes strace trace all threads of the server $pid, with these options, until untrace is called:
# the leak sanitizer cannot end a traced process.
trace() # STRACE-OPTION...
{
	local traced=$pid
	spawn strace strace -f -qq -o "$dir/calls" "$@" -p "$traced"
	wait_until "strace has all threads" is_traced "$traced"
	pid=$traced
}

untrace()
{
	local traced=$pid
	end_process strace TERM
	pid=$traced
}

# ---- what was said

expect_log() # REGEX
{
	grep -qE -- "$1" "$log" || fail "nothing in the server's log matches: $1"
}

reject_log() # REGEX
{
	! grep -qE -- "$1" "$log" || fail "the server's log should not match: $1"
}

# Runs a command that must fail by itself, neither hang nor crash; its output is then in
# $dir/refused.log.
must_fail() # COMMAND [ARGUMENT...]
{
	local status=0
	timeout $((60 * time_factor)) "$@" >"$dir/refused.log" 2>&1 </dev/null || status=$?
	[ "$status" -ne 0 ] || fail "this should have failed: $*"
	[ "$status" -ne 124 ] || fail "this should have failed, not hung: $*"
	[ "$status" -lt 126 ] || fail "this crashed or could not be run (status $status): $*"
}

# Runs a command whose output is only of interest when it fails.
quietly() # COMMAND [ARGUMENT...]
{
	timeout $((120 * time_factor)) "$@" >"$dir/command.log" 2>&1 </dev/null || fail "this failed (status $?): $*"
}

expect_equal() # WHAT WANTED SEEN
{
	[ "$2" = "$3" ] || fail "$1: expected '$2', saw '$3'"
}

# ---- clients

require_python_nbd()
{
	"$python" -c 'import nbd' 2>/dev/null || skip "$python has no libnbd (package python3-libnbd)"
}

# Prints a control socket's answer, or one value of it.
control() # SOCKET REQUEST [PATH.IN.THE.ANSWER]
{
	"$python" "$lib/control.py" "$@"
}

# Prints how many bytes of a file are in the page cache.
cached_bytes() # FILE
{
	fincore --bytes --noheadings --output RES "$1" | tr -d ' '
}

# Drops a file's data from the page cache.
drop_cache() # FILE
{
	dd if="$1" of="$1" bs=1M count=0 conv=notrunc,fdatasync iflag=nocache oflag=nocache status=none
	dd if="$1" iflag=nocache count=0 status=none
}

# ---- images

# Makes an image of a real file system with a few hundred real files in it.
make_ext4_image() # FILE SIZE
{
	rm -f "$1"
	quietly mke2fs -q -t ext4 -d /usr/include/linux "$1" "$2"
}

blocks_used() # FILE
{
	stat -c %b "$1"
}

# ---- file systems and devices (root)

# Attaches a file to a free loop device; sets loop_device to its name.
attach_loop() # FILE [LOSETUP-OPTION...]
{
	local file=$1
	shift
	require_root "loop devices"
	require losetup
	loop_device=$(losetup --find --show "$@" "$file" 2>"$dir/losetup.log") ||
		skip "no loop device can be had here: $(cat "$dir/losetup.log")"
	loop_devices[$loop_device]=1
	# Its last user may have left it read-only.
	[[ " $* " =~ \ (-r|--read-only)\  ]] || blockdev --setrw "$loop_device"
}

# The kernel releases the file when the last user closes the device, and a test that runs at the
# same time may have it open.
detach_loop() # DEVICE
{
	losetup -d "$1"
	unset "loop_devices[$1]"
	wait_until "$1 lets go of its file" has_no_file "$1"
}

has_no_file() # LOOP-DEVICE
{
	! [ -e "/sys/block/${1#/dev/}/loop/backing_file" ]
}

# A loop device can't always be read at once after it was attached.
patiently_mount() # MOUNT-ARGUMENT...
{
	local tries=30
	until mount "$@" 2>"$dir/mount.log"; do
		[ $((tries -= 1)) -gt 0 ] || skip "cannot mount: $(head -n 1 "$dir/mount.log")"
		sleep 0.1
	done
}

mount_at() # DIRECTORY [MOUNT-ARGUMENT...]
{
	local where=$1
	shift
	require_root "mounting"
	mkdir -p "$where"
	patiently_mount "$@" "$where"
	give_to_service "$where"
	on_exit umount -l "$where"
}
