#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd --run serves a command, which gets the server's URI, and ends with the command's status.
# The server serves until the command has ended, also after Ctrl-C, and nothing of it is left.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"
server_files
export TMPDIR=$dir
relative=$(realpath --relative-to . "$dir")

# Sets status and said.
run() # COMMAND NBDLOOPD-OPTION...
{
	status=0
	said=$(timeout $((60 * time_factor)) nbdloopd --run "$@" 2>&1 </dev/null) || status=$?
	[ -z "$(compgen -G "$dir/nbdloopd.*")" ] || fail "a private directory is left"
}

# shellcheck disable=SC2016 # for the command
{
	run 'echo "${port-none}"; case $uri in *"?socket=$unixsocket") nbdinfo --size "$uri";; esac; exit 7' "$image"
	expect_equal "status" 7 "$status"
	expect_equal "port and size" $'none\n1048576' "$said"

	run 'cd / && echo "$unixsocket $exportname" && nbdinfo --size "$uri"' \
		-U "$relative/own.sock" --export "a b=$image"
	expect_equal "socket and export" "$PWD/$relative/own.sock a b"$'\n1048576' "$said"
	[ ! -e "$dir/own.sock" ] || fail "the socket is left"

	port=$(free_port)
	run 'echo "$port ${unixsocket-none}"; nbdinfo --size "$uri"' -p "$port" "$image"
	expect_equal "port and size" "$port none"$'\n1048576' "$said"

	# The command has nbdloopd's input and output, and gets no descriptor of the server's.
	said=$(echo words | nbdloopd --run 'cat; [ -e /proc/self/fd/9 ] || echo none' \
		--notify-fd=9 "$image" 9> >(cat >"$dir/events"))
	expect_equal "its input and descriptor 9" $'words\nnone' "$said"
	wait_until "the server's last event" grep -q '"event": *"ending"' "$dir/events"

	# A server that does not start has no command.
	run "touch '$dir/ran'" "$dir/missing.img"
	expect_equal "status without an image" 1 "$status"
	expect_equal "the error" "nbdloopd: error: $dir/missing.img: No such file or directory" "$said"
	[ ! -e "$dir/ran" ] || fail "the command was run without a server"

	# One of both is killed.
	run 'kill -KILL $$' "$image"
	expect_equal "status of a killed command" 137 "$status"
	run 'kill -KILL "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done' "$image"
	expect_equal "status with a killed server" 1 "$status"
	case $said in
	*"the server was killed by signal 9"*) ;;
	*) fail "nothing tells of the killed server: $said" ;;
	esac
	run 'kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; exit 3' "$image"
	expect_equal "status with a server that was told to end" 3 "$status"
	run no-such-command "$image"
	expect_equal "status of an unknown command" 127 "$status"

	# A signal is for the command.
	spawn launcher nbdloopd "$image" \
		--run 'trap "echo got; exit 5" TERM; echo there; while :; do sleep 0.1; done'
	wait_until "the command runs" grep -q there "$dir/launcher.log"
	end_process launcher TERM
	expect_equal "status of the trap" 5 "$end_status"
	grep -q got "$dir/launcher.log" || fail "the command did not get the signal"

	# Without the launcher, there is nobody to end the server, so it ends.
	spawn launcher nbdloopd --run 'echo $unixsocket; exec sleep 600' "$image"
	wait_until "the command runs" grep -q '^/' "$dir/launcher.log"
	sock=$(grep '^/' "$dir/launcher.log")
	[ -S "$sock" ] || fail "the server has no socket"
	slept=$(pgrep -P "$pid" -x sleep)
	end_process launcher KILL
	wait_until "the end of the server" test ! -e "$sock"
	kill "$slept"
	rmdir "$dir"/nbdloopd.*
}

# On a terminal, Ctrl-C reaches the command and the server.
"$python" - "$image" <<'END' || fail "Ctrl-C"
import os, pty, sys

COMMAND = """
trap 'nbdinfo --size "$uri"; exit 9' INT
echo there
while :; do sleep 0.1; done
"""
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("nbdloopd", ["nbdloopd", "--run", COMMAND, sys.argv[1]])
said = b""
while b"there" not in said:
    said += os.read(terminal, 4096)
os.write(terminal, b"\x03")
try:
    while chunk := os.read(terminal, 4096):
        said += chunk
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status != 9 or b"1048576" not in said:
    sys.exit(f"status {status}: {said}")
END
[ -z "$(compgen -G "$dir/nbdloopd.*")" ] || fail "a private directory is left"
