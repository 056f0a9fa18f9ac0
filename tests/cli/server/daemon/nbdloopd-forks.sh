#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd --fork returns when clients can connect, with status 0, and leaves a server that nobody
# waits for. If the server can't start, the error is on standard error, and the status is not 0.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"
server_files

# Has the server that a pid file names end with the script, if not before.
adopt() # NAME
{
	pid=$(cat "$dir/$1.pid")
	process_pids[$1]=$pid
}

end_adopted() # NAME
{
	kill "$pid"
	wait_until "the end of $1" process_gone "$pid"
	unset "process_pids[$1]"
}

# Clients can connect at once, and the pipe to which it wrote has no writer left.
said=$(nbdloopd --fork -U "$sock" -P "$dir/first.pid" "$image" 2>&1 <"$image") || fail "--fork fails: $said"
adopt first
expect_equal "what --fork says" "" "$said"
expect_equal "size" 1048576 "$(nbdinfo --size "$uri")"
expect_equal "its session" "$pid" "$(ps -o sid= -p "$pid" | tr -d ' ')"
for fd in 0 1 2; do
	expect_equal "descriptor $fd" /dev/null "$(readlink "/proc/$pid/fd/$fd")"
done
end_adopted first
[ ! -e "$sock" ] || fail "the socket is left"
[ ! -e "$dir/first.pid" ] || fail "the pid file is left"

# Messages stay in a file.
nbdloopd --fork -U "$sock" -P "$dir/second.pid" "$image" 2>"$log"
adopt second
kill -HUP "$pid"
wait_until "the configuration is read" grep -q 'configuration was read again' "$log"
end_adopted second
expect_log "listening on $sock"
expect_log "ending"
reject_log "needs a restart"

# Another descriptor of the caller's hears the same.
nbdloopd --fork --notify-fd=9 -U "$sock" -P "$dir/third.pid" "$image" 9> >(cat >"$dir/events") 2>"$log"
adopt third
wait_until "the event" grep -q '"event": *"ready"' "$dir/events"
end_adopted third
wait_until "the last event" grep -q '"event": *"ending"' "$dir/events"

# It can't start.
status=0
said=$(nbdloopd --fork -U "$sock" "$dir/missing.img" 2>&1) || status=$?
expect_equal "status without an image" 1 "$status"
expect_equal "the error" "nbdloopd: error: $dir/missing.img: No such file or directory" "$said"
[ ! -e "$sock" ] || fail "the socket of a server that did not start is left"
refuse_nbdloopd 1 --fork --log=syslog -U "$sock" "$dir/missing.img"
expect_log "error: $dir/missing.img: No such file"
refuse_nbdloopd 2 --fork --port=none "$image"
expect_log "error: --port=none: must be"
refuse_nbdloopd 2 --fork=perhaps "$image"
expect_log "error: --fork=perhaps: must be one of off, on"

# A signal that comes together with the server's readiness ends both. The launcher stands still from
# its fork() on, and so does not know of the pid file, which is there before the server is ready.
# Many exports keep the server from being faster; where it was, once more.
many=(-r)
for ((i = 0; i < 30; i++)); do
	many+=(--export "disk$i=$image")
done
stands_still()
{
	[[ $(ps -o stat= -p "$pid") =~ ^(T|$) ]]
}
for ((try = 0; ; try++)); do
	[ "$try" -lt 20 ] || fail "the launcher was faster each time"
	spawn launcher nbdloopd --fork -U "$sock" -P "$dir/fourth.pid" "${many[@]}"
	child=
	until [ "$child" ] || process_gone "$pid"; do
		# Without a process of its own, which would take longer than a start.
		read -r child 2>/dev/null <"/proc/$pid/task/$pid/children" || true
	done
	kill -STOP "$pid" 2>/dev/null || true
	wait_until "the launcher stands still" stands_still
	early=$([ -s "$dir/fourth.pid" ] || echo yes)
	wait_until "the pid file" test -s "$dir/fourth.pid"
	[ -z "$early" ] || process_gone "$pid" || break
	kill -CONT "$pid" 2>/dev/null || true
	end_process launcher
	adopt fourth
	end_adopted fourth
done
server=$(cat "$dir/fourth.pid")
kill -TERM "$pid"
end_process launcher CONT
expect_equal "status after the signal" 143 "$end_status"
process_gone "$server" || fail "the server is left"
