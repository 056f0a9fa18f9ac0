#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that takes none of its replies is disconnected when others wait for the memory that they are in, though it goes
# on sending: over a unix socket and over TCP.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"

ends_who_trickles() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=32M --stuck-limit=2 --port="$port" --address=127.0.0.1 "$image"
	"$python" - "$lib" "$sock" "$port" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

MIB = 1 << 20


def trickle(client, said, over):
    """A byte, and then another, as long as it is connected."""
    try:
        for n in range(len(said)):
            client.send(said[n:n + 1])
            if over.wait(0.3):
                return
    except ConnectionError:
        pass


def is_ended(where, said):
    deaf = Raw(where, SIMPLE)
    deaf.request(READ, 0, 32 * MIB)
    time.sleep(0.5)
    over = threading.Event()
    thread = threading.Thread(target=trickle, args=(deaf, said, over))
    thread.start()
    try:
        with Raw(where, SIMPLE) as other:
            other.request(READ, 0, 8 * MIB)
            assert other.reply(8 * MIB) == (1, 0, bytes(8 * MIB))
    finally:
        over.set()
        thread.join()
        deaf.socket.close()


for where in sys.argv[2], int(sys.argv[3]):
    # Requests, and the data of a write.
    is_ended(where, request(SIMPLE, FLUSH) * 10)
    is_ended(where, (request(SIMPLE, WRITE, 0, 4) + b"data") * 10)
EOF2
	expect_equal "clients that were disconnected" 4 \
		"$(grep -c 'disconnected: took none of its replies for [0-9]* seconds, while others' "$log")"
	stop_server
}

ends_who_trickles io_uring
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
ends_who_trickles epoll
