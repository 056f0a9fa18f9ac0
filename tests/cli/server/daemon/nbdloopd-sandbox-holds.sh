#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A taken-over event loop (tests/lib/break_out.c) is stopped by the sandbox, on each engine: it
# starts no program, opens no other file, by a call or on its ring, and gains nothing else.  If a
# thread can't be confined, --sandbox=on serves nothing.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require_root "the files of others"
image=$dir/disk.img
truncate -s 16M "$image"

# break_out HOW ATTEMPT FILE [NBDLOOPD-OPTION...]: sets $outcome to "done", an error, or "killed"
break_out()
{
	local attempt=$1 file=$2 status=0
	shift 2
	rm -f "$dir/now"
	preload break_out BREAK_OUT="$attempt" BREAK_OUT_WHEN="$dir/now" BREAK_OUT_FILE="$file"
	start_nbdloopd --threads=1 --export "disk=$image,engine=$engine" "$@"
	server_prefix=()
	touch "$dir/now"
	"$python" -c 'import nbd, sys
h = nbd.NBD()
h.set_export_name("disk")
h.connect_unix(sys.argv[1])
for i in range(3):
    h.pread(4096, 0)' "$sock" >"$dir/client.log" 2>&1 || true
	wait_until "the attempt $attempt" grep -q "break-out: $attempt begins" "$log"
	poll_for 5 told_or_gone "$attempt" || true
	outcome=$(sed -n "s/^break-out: $attempt: //p" "$log")
	if [ -z "$outcome" ]; then
		end_process server
		expect_equal "the server's end" "$((128 + 31))" "$end_status"
		outcome=killed
	else
		stop_server
	fi
}

told_or_gone() # ATTEMPT
{
	grep -q "break-out: $1: " "$log" || process_gone "$pid"
}

refused='^(Permission denied|Operation not permitted|Function not implemented|killed)$'
stopped() # ATTEMPT FILE
{
	break_out "$@"
	[[ $outcome =~ $refused ]] || fail "$engine: $1 $2: $outcome"
}

for engine in $engines; do
	# These attempts do work, where there is no sandbox.
	break_out open /etc/shadow --sandbox=off
	expect_equal "$engine: open without a sandbox" "done" "$outcome"
	break_out ring "$image" --sandbox=off
	expect_equal "$engine: open on a ring without a sandbox" "done" "$outcome"

	stopped execve "$dir/touched"
	[ ! -e "$dir/touched" ] || fail "$engine: a program was started"
	executed=$outcome
	stopped open /etc/shadow
	stopped ring /etc/shadow
	stopped connect -

	if grep -q '^nbdloopd: sandbox: .*, ring restrictions' "$log" && [ "$engine" = io_uring ]; then
		# Its own ring lets the loop open not even what it may open otherwise.
		stopped ring "$image"
	fi
	grep -q '^nbdloopd: sandbox: .*, seccomp' "$log" || continue
	# A ring of its own would have no restrictions, and do what seccomp does not see.
	stopped new-ring "$image"
	expect_equal "$engine: a new ring" "Function not implemented" "$outcome"
	stopped register -
	expect_equal "$engine: a new kind of registration" "Function not implemented" "$outcome"
	stopped setuid -
	expect_equal "$engine: setuid" killed "$outcome"
	expect_equal "$engine: execve" killed "$executed"
	stopped fork -
	stopped mprotect -
	# A C library does without a newer call only if the answer is that of an older kernel.
	stopped newer -
	expect_equal "$engine: a newer call" "Function not implemented" "$outcome"
	filters=yes
done
[ -n "${filters-}" ] || exit 0

# A thread that can't be confined: with sandbox=on, nothing is served.
preload no_filter_for_threads
ready=$dir/ready.pid
server_files
spawn server "${server_prefix[@]}" nbdloopd -U "$dir/on.sock" -P "$ready" --sandbox=on "$image"
end_process server
expect_equal "status with a thread that is not confined" 1 "$end_status"
expect_log "^nbdloopd: error: sandbox=on: a thread can't be confined: Cannot allocate memory: the server ends"
[ ! -s "$ready" ] || fail "the server was ready"
start_nbdloopd --sandbox=auto "$image"
expect_log "^nbdloopd: warning: sandbox: a thread is not confined: Cannot allocate memory"
stop_server
