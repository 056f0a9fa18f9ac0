#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server disconnects a client that takes none of its replies, or stops in the middle of a write,
# when others wait for the memory that this client holds, and the log says so. A client for whom
# nobody waits may take its time, and so may a slow client.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"
limit=$((3 * time_factor)) # seconds

ends_stuck_clients() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=32M --stuck-limit=$limit --port="$port" --address=127.0.0.1 \
		--control="$dir/control" "$image"
	"$python" - "$lib" "$sock" "$port" "$dir/control" $limit <<'EOF' >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
import concurrent.futures, sys, time
sys.path.insert(0, sys.argv[1])
from control import wait_for_requests
from raw_nbd import *

MIB = 1 << 20
path, port, control, limit = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])


def wait_until_taken():
    """What the client that connected last has asked for; it has all the memory then."""
    wait_for_requests(control, 1, TIMEOUT)


background = concurrent.futures.ThreadPoolExecutor()


def reads_in_background():
    """A client beside the other one, which reads more than it gets while that has all the memory."""
    def run():
        with Raw(path, SIMPLE) as client:
            client.request(READ, 0, 8 * MIB)
            assert client.reply(8 * MIB) == (1, 0, bytes(8 * MIB))
    return background.submit(run)


# No other client waits.
with Raw(path, SIMPLE) as paused:
    paused.request(READ, 0, 32 * MIB)
    wait_until_taken()
    time.sleep(2 * limit)
    assert paused.reply(32 * MIB) == (1, 0, bytes(32 * MIB))

# Another client waits.
with Raw(path, SIMPLE) as deaf:
    deaf.request(READ, 0, 32 * MIB)
    wait_until_taken()
    reads_in_background().result()
    assert len(deaf.until_end()) < 32 * MIB

with Raw(path, SIMPLE) as writer:
    writer.send(request(SIMPLE, WRITE, 0, 32 * MIB) + bytes(MIB))
    wait_until_taken()
    reads_in_background().result()
    assert writer.until_end() == b""

# This client is slow, but takes its reply.
with Raw(port, SIMPLE) as slow:
    slow.request(READ, 0, 32 * MIB)
    wait_until_taken()
    other = reads_in_background()
    slow.receive(16)
    for _ in range(24):
        slow.receive(MIB)
        time.sleep(limit / 8)
    assert slow.receive(8 * MIB) == bytes(8 * MIB)
    other.result()
EOF
	expect_equal "clients that were disconnected" 2 "$(grep -c disconnected "$log")"
	expect_log "disconnected: took too little of its replies in $limit seconds, less than 64 KiB/s, while others wait for memory"
	expect_log "disconnected: sent too little of the data of a write in $limit seconds, less than 64 KiB/s, while others wait for memory"
	stop_server
}

ends_stuck_clients io_uring
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
ends_stuck_clients epoll
