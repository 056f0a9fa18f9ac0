# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The servers that a script starts: nbdkit with the plugin, and nbdloopd.  functions.sh includes it.

[ -e "$plugin" ] || fail "no plugin at $plugin: build it first, or set LOOP_PLUGIN"

# Words put before nbdkit's command line: server_prefix=(setpriv --reuid nobody)
server_prefix=()
# Options of nbdloopd besides those that a script gives.
nbdloopd_options=()
# Where the server listens; empty for a unix socket in $dir.
server_listen=()
# What start_server starts (see each_target).
server_program=nbdkit

# Sets the paths of the server called $server (default: "server"), and its URI.
server_files()
{
	sock=$dir/${server:-server}.sock
	log=$dir/${server:-server}.log
	uri="nbd+unix:///?socket=$sock"
}

# Sets the array command to the command line of nbdkit with the plugin.
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

# Sets the array command to the command line of nbdloopd. Its options for an image are the plugin's
# keys with dashes. Each image of a directory is an export. Options about nbdkit's threads are
# dropped.
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
		# These settings are for a small machine: by default the server locks over 128 MiB
		# for each processor.
		swap=on) words+=(--swap --threads=1 --memory=32M --max-connections=8) ;;
		*) words+=("--$1") ;;
		esac
		shift
	done
	set -- "${server_listen[@]}"
	[ $# -gt 0 ] || words+=(-U "$sock")
	while [ $# -gt 0 ]; do
		case $1 in
		-i) words+=(--address "$2" --tls=off) ;;
		-p) words+=(--port "$2") ;;
		*) fail "nbdloopd has no option for $1" ;;
		esac
		shift 2
	done
	command=("${server_prefix[@]}" nbdloopd "${nbdloopd_options[@]}" "${words[@]}" "${images[@]}")
}

# Sets the array command to the command line of the server that $server_program names; the server
# writes PIDFILE when it listens.
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

# Starts a server and returns when it listens; sets sock, log, uri and pid. Both servers know the
# option -r.
start_server() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	local name=${server:-server} ready command
	server_files
	ready=$dir/$name.pid
	# nbdkit may run as another user, who must be able to write this file.
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

# Ends a server as its administrator would; the server must not crash meanwhile.
stop_server()
{
	end_process "${server:-server}" TERM
	[ "$end_status" = 0 ] || fail "the server ended with status $end_status"
}

kill_server()
{
	end_process "${server:-server}" KILL
}

# Starts a server that must refuse to start; its output is then in $log.
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

# Starts nbdloopd and returns when clients can connect; sets the variables that start_server() sets.
start_nbdloopd() # [OPTION...] [IMAGE]
{
	local name=${server:-server} ready
	server_files
	ready=$dir/$name.pid
	rm -f "$ready"
	spawn "$name" "${server_prefix[@]}" nbdloopd -U "$sock" -P "$ready" "${nbdloopd_options[@]}" "$@"
	wait_until "the server listens" server_ready_or_gone "$ready"
	[ -s "$ready" ] || fail "nbdloopd did not start: $*"
}

# Starts an nbdloopd that must refuse to start, with this exit status; its output is then in $log.
refuse_nbdloopd() # STATUS [OPTION...] [IMAGE]
{
	local wanted=$1 status=0
	shift
	server_files
	timeout $((20 * time_factor)) "${server_prefix[@]}" nbdloopd "$@" >"$log" 2>&1 </dev/null || status=$?
	[ "$status" != 124 ] || fail "nbdloopd neither ended nor refused: $*"
	expect_equal "status of nbdloopd $*" "$wanted" "$status"
}

# Prints a port on which nobody listens now. The kernel gives it to no client by itself
# (net.ipv4.ip_local_port_range begins at 32768).
free_port()
{
	"$python" -c '
import random, socket
while True:
    port = random.randrange(20000, 32768)
    try:
        socket.socket().bind(("", port))
        break
    except OSError:
        pass
print(port)'
}

# Connects a first client, for which the plugin opens the image: its messages are then in the log.
connect_once()
{
	nbdinfo --size "$uri" >"$dir/nbdinfo.log" 2>&1 || fail "no client can connect to $uri"
}

# Makes "${as_nobody[@]}" run a command as an unprivileged user who can write to $dir. Servers are
# then started from a place that this user can read.
use_unprivileged_server()
{
	# This user can't write valgrind's reports.
	unset NBDLOOP_VALGRIND
	if [ "$(id -u)" != 0 ]; then
		as_nobody=(env) # it is one already
		return
	fi
	as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups --)
	chown nobody "$dir"
	"${as_nobody[@]}" test -x "$dir" || skip "the user nobody has no access to $dir"
	if ! "${as_nobody[@]}" test -r "$plugin"; then
		cp "$plugin" "$dir/plugin.so"
		plugin=$dir/plugin.so
	fi
	# This user may have no access to the build tree's wrapper either, which is in PATH when
	# make runs the tests.
	"${as_nobody[@]}" nbdkit --version >"$dir/nbdkit.log" 2>&1 || PATH=/usr/local/bin:/usr/bin:/bin
}

# ---- engines

# Runs a function once per engine, with the engine's name in $engine; the function passes
# engine=$engine to its servers. If this machine lacks an engine, the test runs with the others, and
# then counts as skipped.
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

# Runs a function once per server and engine; start_server starts that server.
each_target() # FUNCTION [ARGUMENT...]
{
	for server_program in $servers; do
		each_engine "$@"
	done
	server_program=nbdkit
}

# ---- servers with faults

# Prints the path of one of the small C programs of tests/lib.
lib_program() # NAME
{
	local built=$top_builddir/tests/cli/$1
	if [ ! -x "$built" ]; then
		built=$dir/$1
		# shellcheck disable=SC2086 # a compiler and its options
		[ -x "$built" ] || ${CC:-cc} -o "$built" "$lib/$1.c"
	fi
	echo "$built"
}

# Preloads a library of tests/lib into servers, with these variables in their environment.
preload() # NAME [VARIABLE=VALUE...]
{
	local library=$dir/$1.so
	# shellcheck disable=SC2086 # a compiler and its options
	[ -e "$library" ] || ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$library" "$lib/$1.c"
	# The library may write files here about what it did.
	nbdloopd_options=(--sandbox-path="$dir")
	# The address sanitizer must be the first library.
	server_prefix=(env LD_PRELOAD="$library" ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" "${@:2}")
}

# Forbids servers the use of io_uring, so that their event loops use epoll.
forbid_io_uring() # [SYSTEM-CALL=ERRNO...]
{
	server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM "$@" --)
}
