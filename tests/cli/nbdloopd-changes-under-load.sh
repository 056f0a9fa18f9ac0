#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While clients on several threads write and verify, and others come and go, exports are added and
# removed, the status is requested, direct I/O is switched, and sizes and the configuration are read
# again: no request fails, no byte is wrong. Under valgrind, nothing leaks.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
socket=$dir/control
truncate -s 1M "$dir/other.img"

# Make each change several times, in turn; a client connects for each.
cat >"$dir/change.py" <<'EOF2'
import json, os, signal, socket, sys, time
import nbd
path, control_path, pid, directory = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
control = socket.socket(socket.AF_UNIX)
control.settimeout(60)
control.connect(control_path)
answers = control.makefile("rw")

def ask(request):
    answers.write(request + "\n")
    answers.flush()
    answer = json.loads(answers.readline())
    assert "error" not in answer, (request, answer)
    return answer

def visit(name):
    h = nbd.NBD()
    h.set_export_name(name)
    h.connect_unix(path)
    h.pread(512, 0)
    h.shutdown()

def names():
    return {e["name"] for e in ask("status")["exports"]}

for turn in range(12):
    ask(f"add added={directory}/other.img")
    visit("added")
    visit("disk")
    ask("set direct-io=%s export=disk" % ("off" if turn % 2 else "on"))
    ask("resize export=disk")
    if turn % 3:
        ask("remove export=added")
    else:
        os.kill(pid, signal.SIGHUP)  # it is not in the configuration
    end = time.monotonic() + 60
    while "added" in names():
        assert time.monotonic() < end, "the export is not removed"
EOF2

changes()
{
	local server_pid
	rm -f "$dir/disk.img"
	truncate -s 16M "$dir/disk.img"
	printf '%s\n' '[server]' 'threads = 4' '[export disk]' "file = $dir/disk.img" "engine = $engine" >"$dir/conf"
	start_nbdloopd --config "$dir/conf" --control "$socket"
	server_pid=$pid
	spawn load "$python" "$lib/verify_load.py" "nbd+unix:///disk?socket=$sock" 6 $((100 * time_factor))
	quietly "$python" "$dir/change.py" "$sock" "$socket" "$server_pid" "$dir"
	end_process load TERM
	expect_equal "status of the load" 0 "$end_status"
	stop_server
}

[ -n "${NBDLOOP_VALGRIND-}" ] || each_engine changes
# Use the event loop without io_uring: the one with io_uring waits in a system call for which
# valgrind stops all threads.
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
engines=${engines/io_uring}
[[ $engines =~ [a-z] ]] || engines=threads
each_engine changes
