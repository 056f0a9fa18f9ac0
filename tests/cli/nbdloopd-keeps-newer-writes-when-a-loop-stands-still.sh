#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client writes while the event loop of its connection stands still, gives up, closes, and sends
# first the same write and then a newer one through the other loop. When the first loop resumes, the
# old write must not overwrite the newer one: whether the loop stood still before it received the
# write (the write is in the socket) or after that; nor when the client sent NBD_CMD_DISC before it
# closed.
. "$(dirname "$0")/../lib/functions.sh"

require strace
require_python_nbd
forbid=$(lib_program forbid_syscall)
image=$dir/disk.img

cat >"$dir/client.py" <<'EOP'
import glob, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

path, pid, call, calls, tcp, goodbye = sys.argv[2:]
SIZE = 4096
STANDS_STILL = 2  # seconds
TOO_LATE = 3
OLD, NEW = b"o" * SIZE, b"n" * SIZE
if tcp == "yes":
    path = int(path)


def ask(client, kind, offset=0, flags=0, data=b"", length=None):
    client.send(request(SIMPLE, kind, offset, len(data) if length is None else length, flags) + data)
    magic, error, _ = struct.unpack(">IIQ", client.receive(16))
    assert magic == 0x67446698 and error == 0, error
    return client.receive(length) if kind == READ else b""


def switches():
    found = {}
    for status in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(status) as f:
            found[status.split("/")[-2]] = int([line for line in f if line.startswith("voluntary")][0].split()[1])
    return found


def loop_of(client):
    """The thread that serves it."""
    before = switches()
    for _ in range(200):
        ask(client, READ, 1 << 20, length=512)
    after = switches()
    return max((after[thread] - before.get(thread, 0), thread) for thread in after if thread != pid)[1]


def traced(thread):
    with open(f"/proc/{pid}/task/{thread}/status") as f:
        return "TracerPid:\t0\n" not in f.readlines()


def wait(true):
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


impatient = Raw(path, SIMPLE)
slow = loop_of(impatient)
others = []
while not others or loop_of(others[-1]) == slow:
    assert len(others) < 20, "all connections are on one loop"
    others.append(Raw(path, SIMPLE))
other = others[-1]
begun = time.monotonic()
strace = subprocess.Popen(["strace", "-qq", "-o", calls, "-e", f"inject={call}={STANDS_STILL}s:when=1", "-p", slow])
wait(lambda: traced(slow))
time.sleep(0.2)
impatient.send(request(SIMPLE, WRITE, 0, SIZE, 0) + OLD + (request(SIMPLE, DISC) if goodbye == "yes" else b""))
time.sleep(0.2)
impatient.socket.close()
ask(other, WRITE, data=OLD)
ask(other, WRITE, data=NEW, flags=FUA)
assert ask(other, READ, length=SIZE) == NEW
# On a busy machine the loop may have resumed before the client wrote.
in_time = time.monotonic() < begun + STANDS_STILL
# Wait until the loop has resumed, and answers its connections again.
late = [Raw(path, SIMPLE) for _ in range(4)]
for client in late:
    ask(client, FLUSH)
time.sleep(0.3)
strace.terminate()
strace.wait()
assert ask(other, READ, length=SIZE) == NEW, "an older write has landed on a newer one"
sys.exit(0 if in_time else TOO_LATE)
EOP

# try_once LOOP TCP CALL WHEN GOODBYE: strace stops the loop for two seconds when it enters or
# leaves the call. Returns false when the loop resumed too early.
try_once()
{
	local status=0
	local what="$1, tcp $2, $4 of $3, goodbye $5" server_listen=() server_prefix=() address=$dir/server.sock
	if [ "$1" = epoll ]; then
		server_prefix=("$forbid" io_uring_setup=EPERM --)
	fi
	if [ "$2" = yes ]; then
		address=$(free_port)
		server_listen=(--address 127.0.0.1 --port "$address")
	fi
	truncate -s 0 "$image"
	truncate -s 4M "$image"
	rm -f "$dir/calls"
	start_nbdloopd --threads=2 "${server_listen[@]}" "$image"
	test "$2" = yes || address=$sock
	"$python" "$dir/client.py" "$lib" "$address" "$pid" "$3:delay_$4" "$dir/calls" "$2" "$5" >"$dir/client.log" 2>&1 || status=$?
	[ "$status" != 3 ] || { stop_server && return 1; }
	[ "$status" = 0 ] || fail "wrong when the loop stands still ($what)"
	grep -q DELAYED "$dir/calls" || fail "the loop did not stand still ($what)"
	expect_log 'gave up on this connection'
	stop_server
}

stands_still() # As above.
{
	local _
	for _ in 1 2 3 4 5; do
		! try_once "$@" || return 0
	done
	fail "the loop never stood still for long enough ($*)"
}

for tcp in no yes; do
	stands_still io_uring "$tcp" io_uring_enter enter no
	stands_still io_uring "$tcp" io_uring_enter exit no
	stands_still epoll "$tcp" recvfrom enter no
	stands_still epoll "$tcp" recvfrom exit no
done
stands_still io_uring no io_uring_enter exit yes
stands_still epoll no recvfrom enter yes
