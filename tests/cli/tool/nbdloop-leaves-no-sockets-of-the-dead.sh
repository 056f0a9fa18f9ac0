#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Any nbdloop command removes the sockets in /run/nbdloop of a guard and a server that were killed
# earlier; it keeps sockets that somebody listens on, sockets whose guard still runs, and files with
# other names. Where there is no driver, detach --all has nothing to do, which is no error.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_root "/run/nbdloop"
run=/run/nbdloop
mkdir -p -m 700 $run

# These names contain the IDs of processes that don't run.
read -r most </proc/sys/kernel/pid_max
dead=$((most + 1)) served=$((most + 2)) deaf=$((most + 3))
on_exit rm -f $run/{$dead,$served,$deaf}.{sock,guard,nbd} $run/$dead.note $run/note

left()
{
	local file
	for file in $run/{$dead,$served,$deaf}.{sock,guard,nbd} $run/$dead.note $run/note; do
		[ ! -e "$file" ] || echo "${file#"$run"/}"
	done | sort | xargs
}

spawn sockets "$python" "$own_python" $run $dead $served $deaf "$dir/ready"
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
