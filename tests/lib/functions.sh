# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What every script of tests/cli begins with:
#
#	. "$(dirname "$0")/../lib/functions.sh"
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
plugin=${LOOP_PLUGIN:-$top_builddir/plugins/loop/.libs/nbdkit-loop-plugin.so}
time_factor=${NBDLOOP_TIME_FACTOR:-1}
engines=${LOOP_ENGINES:-io_uring aio threads}
servers=${LOOP_SERVERS:-nbdkit nbdloopd}
# The distribution's, which has its packages' modules, rather than another one in PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
# Its scripts may import the modules of tests/lib; the source tree may be read-only.
export PYTHONPATH=$lib PYTHONDONTWRITEBYTECODE=1
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/nbdloop.XXXXXX")
chmod 755 "$dir" # some servers run as another user
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
	trap '' PIPE # nobody may be reading any more, but there is still much to put away
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

# True as soon as the command is; false if it isn't within SECONDS.
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
	poll_for 20 "$@" || fail "waited 20 seconds in vain: $what"
}

process_gone() # PID
{
	! kill -0 "$1" 2>/dev/null
}

# ---- processes in the background

# Starts one, with its output in $dir/NAME.log; it is killed at the end of the script at the latest.
spawn() # NAME COMMAND [ARGUMENT...]
{
	local name=$1
	shift
	[ -z "${process_pids[$name]-}" ] || fail "the process $name runs already"
	"$@" >"$dir/$name.log" 2>&1 </dev/null &
	pid=$!
	process_pids[$name]=$pid
}

# Waits for its end, after sending a signal if there is one; its status is in $end_status then.
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

# ---- servers

[ -e "$plugin" ] || fail "no plugin at $plugin: build it first, or set LOOP_PLUGIN"

# Words put before nbdkit's command line: server_prefix=(setpriv --reuid nobody)
server_prefix=()
# Where the server listens; empty for a unix socket in $dir.
server_listen=()
# What start_server starts: nbdkit with the plugin, or nbdloopd (see each_target).
server_program=nbdkit

# Where the server called $server (default: "server") has its things.
server_files()
{
	sock=$dir/${server:-server}.sock
	log=$dir/${server:-server}.log
	uri="nbd+unix:///?socket=$sock"
}

# Sets the array command to what starts it.
server_command() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	local options=() listen=(-U "$sock")
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	[ $# -eq 0 ] || shift
	[ ${#server_listen[@]} -eq 0 ] || listen=("${server_listen[@]}")
	command=("${server_prefix[@]}" nbdkit -f "${listen[@]}" "${options[@]}" "$plugin" "$@")
}

# The same for nbdloopd, whose options for an image are the plugin's keys, with dashes, and which
# has an export for each image of a directory.  What is about nbdkit's threads isn't for it.
nbdloopd_command() # [OPTION...] -- IMAGE|dir=DIRECTORY [KEY=VALUE...]
{
	local words=() images=() file
	while [ "$1" != -- ]; do
		if [ "$1" = -t ]; then shift; else words+=("$1"); fi
		shift
	done
	case $2 in
	dir=*) for file in "${2#dir=}"/*; do images+=(--export "${file##*/}=$file"); done ;;
	*) images=("$2") ;;
	esac
	shift 2
	while [ $# -gt 0 ]; do
		case $1 in
		contexts=*) ;;
		# As for a small machine: with its defaults it locks over 128 MiB for each
		# processor.
		swap=on) words+=(--swap --threads=1 --memory=32M --max-connections=8) ;;
		*) words+=("--$1") ;;
		esac
		shift
	done
	set -- "${server_listen[@]}"
	[ $# -gt 0 ] || words+=(-U "$sock")
	while [ $# -gt 0 ]; do
		case $1 in
		-i) words+=(--address "$2") ;;
		-p) words+=(--port "$2") ;;
		*) fail "nbdloopd has no option for $1" ;;
		esac
		shift 2
	done
	command=("${server_prefix[@]}" nbdloopd "${words[@]}" "${images[@]}")
}

# Sets the array command to what starts the one that $server_program names, and writes PIDFILE when
# it listens.
start_command() # PIDFILE [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	local ready=$1
	shift
	if [ "$server_program" = nbdloopd ]; then
		nbdloopd_command -P "$ready" "$@"
	else
		server_command -P "$ready" --exit-with-parent "$@"
	fi
}

# Starts a server and returns when it listens; sets sock, log, uri and pid.  Both know the option
# -r.
start_server() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	local name=${server:-server} ready command
	server_files
	ready=$dir/$name.pid
	# nbdkit may run as another user, who must be able to write it.
	: >"$ready"
	chmod 666 "$ready"
	rm -f "$sock"
	start_command "$ready" "$@"
	spawn "$name" "${command[@]}"
	wait_until "the server listens" server_ready_or_gone "$ready"
	[ -s "$ready" ] || fail "the server did not start: ${command[*]}"
}

server_ready_or_gone() # PIDFILE
{
	[ -s "$1" ] || process_gone "$pid"
}

# Ends a server as its administrator would; it must not crash on its way out.
stop_server()
{
	end_process "${server:-server}" TERM
	[ "$end_status" = 0 ] || fail "the server ended with status $end_status"
}

kill_server()
{
	end_process "${server:-server}" KILL
}

# Starts a server that must refuse to start; what it said is in $log afterwards.
refuse_start() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	local name=${server:-server} status=0 command
	server_files
	rm -f "$sock"
	server_command --run 'exit 99' "$@"
	timeout $((20 * time_factor)) "${command[@]}" >"$log" 2>&1 </dev/null || status=$?
	case $status in
	0 | 99) fail "the server started, though it should refuse: ${command[*]}" ;;
	124) fail "the server neither started nor refused: ${command[*]}" ;;
	esac
	[ "$status" -lt 128 ] || fail "the server crashed with status $status: ${command[*]}"
}

# The other server.  Starts it and returns when it can be connected to; sets what start_server()
# sets.
start_nbdloopd() # [OPTION...] [IMAGE]
{
	local name=${server:-server} ready
	server_files
	ready=$dir/$name.pid
	rm -f "$ready"
	spawn "$name" "${server_prefix[@]}" nbdloopd -U "$sock" -P "$ready" "$@"
	wait_until "the server listens" server_ready_or_gone "$ready"
	[ -s "$ready" ] || fail "nbdloopd did not start: $*"
}

# Starts one that must refuse to start, with this status; what it said is in $log afterwards.
refuse_nbdloopd() # STATUS [OPTION...] [IMAGE]
{
	local wanted=$1 status=0
	shift
	server_files
	timeout $((20 * time_factor)) "${server_prefix[@]}" nbdloopd "$@" >"$log" 2>&1 </dev/null || status=$?
	[ "$status" != 124 ] || fail "nbdloopd neither ended nor refused: $*"
	expect_equal "status of nbdloopd $*" "$wanted" "$status"
}

# A port that nobody listens on now.
free_port()
{
	"$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# A first client: what the plugin says when it opens the image stands in the log afterwards.
connect_once()
{
	nbdinfo --size "$uri" >"$dir/nbdinfo.log" 2>&1 || fail "no client can connect to $uri"
}

# Makes "${as_nobody[@]}" run a command as an unprivileged user who can write to $dir, and servers
# started from a place that this user can read.
use_unprivileged_server()
{
	# That user cannot write valgrind's reports.
	unset NBDLOOP_VALGRIND
	as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups --)
	chown nobody "$dir"
	"${as_nobody[@]}" test -x "$dir" || skip "the user nobody has no access to $dir"
	if ! "${as_nobody[@]}" test -r "$plugin"; then
		cp "$plugin" "$dir/plugin.so"
		plugin=$dir/plugin.so
	fi
	# The build tree's wrapper, in PATH when the tests run from it, may be out of reach too.
	"${as_nobody[@]}" nbdkit --version >"$dir/nbdkit.log" 2>&1 || PATH=/usr/local/bin:/usr/bin:/bin
}

# ---- nbdloop

require_nbdloop()
{
	[ -x "$top_builddir/tool/nbdloop" ] || skip "nbdloop is not built"
}

# Has nbdloop's list and status read a copy of a recorded machine: nbd0, nbd1 and nbd10 are
# attached, nbd2 isn't.
use_recorded_system()
{
	export NBDLOOP_SYSROOT=$dir/system
	"$python" "$lib/system_tree.py" make "$lib/system_tree.txt" "$NBDLOOP_SYSROOT"
}

# ---- engines

# Runs a function once per engine, with the engine's name in $engine; it passes engine=$engine to
# its servers.  An engine that this machine does not have makes the test a skipped one at its end,
# after the others passed.
each_engine() # FUNCTION [ARGUMENT...]
{
	local facts
	facts=$(nbdkit --dump-plugin "$plugin") || fail "nbdkit --dump-plugin fails"
	for engine in $engines; do
		if grep -qx "loop_engine_$engine=yes" <<<"$facts"; then
			rm -f "$dir"/*.log
			"$@"
		else
			engines_missing[$engine]=1
		fi
	done
}

# The same once per server and engine: start_server starts that server.
each_target() # FUNCTION [ARGUMENT...]
{
	for server_program in $servers; do
		each_engine "$@"
	done
	server_program=nbdkit
}

# ---- system calls

is_traced() # PID
{
	! grep -q '^TracerPid:[[:space:]]0$' "/proc/$1/task/"*/status
}

# Has strace look at all threads of the server $pid, with these options, until untrace: the leak
# sanitizer can't end a process that is traced.
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

# Runs a command that must fail by itself; what it said is in $dir/refused.log afterwards.
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

# A control socket's answer, or one value of it.
control() # SOCKET REQUEST [PATH.IN.THE.ANSWER]
{
	"$python" "$lib/control.py" "$@"
}

# Bytes of a file that are in the page cache.
cached_bytes() # FILE
{
	fincore --bytes --noheadings --output RES "$1" | tr -d ' '
}

# Drops what the page cache holds of a file.
drop_cache() # FILE
{
	dd if="$1" of="$1" bs=1M count=0 conv=notrunc,fdatasync iflag=nocache oflag=nocache status=none
	dd if="$1" iflag=nocache count=0 status=none
}

# ---- images

# A real file system with a few hundred real files in it.
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

# Attaches a file to a free loop device, whose name is then in $loop_device.
attach_loop() # FILE [LOSETUP-OPTION...]
{
	local file=$1
	shift
	require_root "loop devices"
	require losetup
	loop_device=$(losetup --find --show "$@" "$file" 2>"$dir/losetup.log") ||
		skip "no loop device can be had here: $(cat "$dir/losetup.log")"
	loop_devices[$loop_device]=1
}

# The kernel lets go of the file when the last one closes the device, and any test beside this one
# may be looking at it.
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

# A loop device that was attached a moment ago can't always be read yet.
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
	on_exit umount -l "$where"
}

# The path of one of the small C programs of tests/lib.
lib_program() # NAME
{
	local built=$top_builddir/tests/cli/$1
	if [ ! -x "$built" ]; then
		built=$dir/$1
		[ -x "$built" ] || "${CC:-cc}" -o "$built" "$lib/$1.c"
	fi
	echo "$built"
}
