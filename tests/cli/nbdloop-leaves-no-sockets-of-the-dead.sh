#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Any nbdloop command removes the sockets in /run/nbdloop of a guard and a server that were killed
# earlier; it keeps sockets that somebody listens on, sockets whose guard still runs, and files with
# other names. Where there is no driver, detach --all has nothing to do, which is no error.
. "$(dirname "$0")/../lib/functions.sh"

require_nbdloop
require_root "/run/nbdloop"
run=/run/nbdloop
mkdir -p -m 700 $run

# These names contain the IDs of processes that don't run.
read -r most </proc/sys/kernel/pid_max
dead=$((most + 1)) served=$((most + 2)) deaf=$((most + 3))
on_exit rm -f $run/{$dead,$served,$deaf}.{sock,guard,nbd} $run/$dead.note $run/note

cat >"$dir/sockets.py" <<'EOP'
import os, socket, sys, time

run, dead, served, deaf, ready = sys.argv[1:]

def listen(name, type):
    s = socket.socket(socket.AF_UNIX, type)
    s.bind(f"{run}/{name}")
    s.listen(1)
    return s

for pid in dead, served, deaf:
    listen(f"{pid}.sock", socket.SOCK_STREAM).close()
    listen(f"{pid}.guard", socket.SOCK_SEQPACKET).close()
listen(f"{dead}.nbd", socket.SOCK_STREAM).close()
os.unlink(f"{run}/{served}.sock")
kept = [listen(f"{served}.sock", socket.SOCK_STREAM)]
os.unlink(f"{run}/{deaf}.guard")
kept.append(listen(f"{deaf}.guard", socket.SOCK_SEQPACKET))
for note in f"{dead}.note", "note":
    open(f"{run}/{note}", "w").close()
open(ready, "w").close()
time.sleep(100000)
EOP

left()
{
	local file
	for file in $run/{$dead,$served,$deaf}.{sock,guard,nbd} $run/$dead.note $run/note; do
		[ ! -e "$file" ] || echo "${file#"$run"/}"
	done | sort | xargs
}

spawn sockets "$python" "$dir/sockets.py" $run $dead $served $deaf "$dir/ready"
wait_until "there are sockets" [ -e "$dir/ready" ]
quietly nbdloop list
expect_equal "what is left" "$(printf '%s\n' note $dead.note $deaf.guard $served.guard $served.sock | sort | xargs)" "$(left)"
end_process sockets KILL
quietly nbdloop list
expect_equal "what is left of those" "$(printf '%s\n' note $dead.note | sort | xargs)" "$(left)"

if ! modprobe -qn nbd 2>/dev/null && [ ! -e /sys/module/nbd ]; then
	quietly nbdloop detach --all
	expect_equal "what detach --all says" "" "$(cat "$dir/command.log")"
fi
