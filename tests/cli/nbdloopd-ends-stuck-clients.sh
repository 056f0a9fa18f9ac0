#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that takes none of its replies, or sends nothing more of a write, is disconnected when others wait for the
# memory that it holds, and the log says so.  One whom nobody waits for may take its time, as may one that is slow.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"

ends_stuck_clients() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=32M --stuck-limit=2 --port="$port" --address=127.0.0.1 "$image"
	"$python" - "$lib" "$sock" "$port" <<'EOF' >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

MIB = 1 << 20
path, port = sys.argv[2], int(sys.argv[3])


def reads_in_background():
    """A client beside the other one, which reads more than it gets while that has all the memory."""
    def run():
        with Raw(path, SIMPLE) as client:
            client.request(READ, 0, 8 * MIB)
            assert client.reply(8 * MIB) == (1, 0, bytes(8 * MIB))
    thread = threading.Thread(target=run)
    thread.start()
    return thread


# Nobody waits.
with Raw(path, SIMPLE) as paused:
    paused.request(READ, 0, 32 * MIB)
    time.sleep(4)
    assert paused.reply(32 * MIB) == (1, 0, bytes(32 * MIB))

# Another waits.
with Raw(path, SIMPLE) as deaf:
    deaf.request(READ, 0, 32 * MIB)
    time.sleep(0.5)
    reads_in_background().join()
    assert len(deaf.until_end()) < 32 * MIB

with Raw(path, SIMPLE) as writer:
    writer.send(request(SIMPLE, WRITE, 0, 32 * MIB) + bytes(MIB))
    time.sleep(0.5)
    reads_in_background().join()
    assert writer.until_end() == b""

# Slow, but it takes its reply.
with Raw(port, SIMPLE) as slow:
    slow.request(READ, 0, 32 * MIB)
    time.sleep(0.5)
    thread = reads_in_background()
    end = time.monotonic() + 6
    slow.receive(16)
    length = 32 * MIB
    while time.monotonic() < end:
        length -= len(slow.receive(MIB))
        time.sleep(0.4)
    assert slow.receive(length) == bytes(length)
    thread.join()
EOF
	expect_equal "clients that were disconnected" 2 "$(grep -c disconnected "$log")"
	expect_log 'disconnected: took none of its replies for 2 seconds, while others wait for memory'
	expect_log 'disconnected: sent nothing of the data of a write for 2 seconds, while others wait for memory'
	stop_server
}

ends_stuck_clients io_uring
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
ends_stuck_clients epoll
