#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd serves on listening sockets that systemd passes, and on a connected socket that its
# parent passes; with only the latter, the server ends when the connection does.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 3M "$image"

# Passes the sockets as systemd would.
cat >"$dir/activate.py" <<'EOF2'
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
if sys.argv[2] == "listen":
    listening.listen()
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = "1"
os.execvp(sys.argv[3], sys.argv[3:])
EOF2

listens()
{
	grep -q "listening on $1\$" "$log"
}
server_files
spawn server "$python" "$dir/activate.py" "$dir/passed.sock" listen nbdloopd "$image"
wait_until "the server listens" listens "$dir/passed.sock"
reject_log '127\.0\.0\.1'
expect_equal size 3145728 "$(nbdinfo --size "nbd+unix:///?socket=$dir/passed.sock")"
stop_server
[ -S "$dir/passed.sock" ] || fail "a socket that is systemd's was removed"
rm "$dir/passed.sock" "$log"

# The passed sockets work beside others, and the server doesn't remove them.
spawn server "$python" "$dir/activate.py" "$dir/passed.sock" listen nbdloopd -U "$sock" "$image"
wait_until "the server listens" listens "$sock"
listens "$dir/passed.sock" || fail "the passed socket isn't used besides another"
stop_server
rm "$dir/passed.sock" "$log"
spawn server "$python" "$dir/activate.py" "$dir/passed.sock" listen \
	nbdloopd --socket-activation=off -U "$sock" "$image"
wait_until "the server listens" listens "$sock"
reject_log "passed\.sock"
stop_server
rm "$dir/passed.sock" "$log"

# Passed to a launcher, the sockets are its server's, and not those of the command.
export passed=$dir/passed.sock
# shellcheck disable=SC2016 # for the command
said=$("$python" "$dir/activate.py" "$passed" listen nbdloopd "$image" \
	--run 'echo "${LISTEN_PID-}${LISTEN_FDS-}"; [ -e /proc/self/fd/3 ] || echo closed; timeout 60 nbdinfo --size "nbd+unix:///?socket=$passed"')
expect_equal "what a command gets" $'\nclosed\n3145728' "$said"
rm "$passed"
"$python" "$dir/activate.py" "$passed" listen nbdloopd --fork -P "$dir/forked.pid" "$image" 2>"$log"
pid=$(cat "$dir/forked.pid")
process_pids[forked]=$pid
listens "$passed" || fail "the server in the background doesn't use the passed socket"
expect_equal size 3145728 "$(nbdinfo --size "nbd+unix:///?socket=$passed")"
kill "$pid"
wait_until "the end of the server in the background" process_gone "$pid"
unset "process_pids[forked]"
rm "$passed" "$log"

"$python" "$dir/activate.py" "$dir/passed.sock" no nbdloopd "$image" >"$log" 2>&1 && fail "a socket that doesn't listen was accepted"
expect_log 'descriptor 3: it is not a listening socket'

# A socket pair.
"$python" - "$image" <<'EOF2' >"$dir/pair.log" 2>&1 || fail "no service on a passed socket"
import nbd, socket, subprocess, sys
ours, theirs = socket.socketpair()
server = subprocess.Popen(["nbdloopd", "--fd", str(theirs.fileno()), sys.argv[1]], pass_fds=[theirs.fileno()])
theirs.close()
h = nbd.NBD()
h.connect_socket(ours.detach())
assert h.get_size() == 3145728
h.pwrite(b"x" * 4096, 8192)
assert h.pread(4096, 8192) == b"x" * 4096
h.shutdown()
assert server.wait(20) == 0, server.returncode
EOF2
grep -q listening "$dir/pair.log" && fail "it listens as well"
expect_equal "what was written" x "$(dd if="$image" bs=1 skip=8192 count=1 status=none)"
