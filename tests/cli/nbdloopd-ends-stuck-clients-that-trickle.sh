#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server disconnects a client that takes none of its replies while others wait for the memory
# that these replies hold, even if the client continues to send, over a unix socket and over TCP;
# likewise a client that sends a byte of its data now and then. Meanwhile other clients have room
# for one request of the largest size that the kernel's client sends.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
limit=$((2 * time_factor)) # seconds
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
    # Send requests, and the data of a write.
    is_ended(where, request(SIMPLE, FLUSH) * 10)
    is_ended(where, (request(SIMPLE, WRITE, 0, 4) + b"data") * 10)
EOF2
	expect_equal "clients that were disconnected" 4 \
		"$(grep -c 'disconnected: took too little of its replies in 2 seconds, less than 64 KiB/s, while others' "$log")"
	stop_server
}

# Four clients take all of the memory with writes of 32 MiB.
ends_who_sends_little() # EVENT-LOOP
{
	local port where
	port=$(free_port)
	start_nbdloopd --threads=1 --memory=128M --stuck-limit=$limit --port="$port" --address=127.0.0.1 \
		--control="$dir/control" "$image"
	for where in "$sock" "$port"; do
		"$python" - "$lib" "$where" "$dir/control" "$log" $limit <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from control import wait_for_requests
from raw_nbd import *

MIB = 1 << 20
where, control, log, limit = int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2], *sys.argv[3:5], int(sys.argv[5])
over = threading.Event()


def ended():
    with open(log) as lines:
        return sum("disconnected" in line for line in lines)


def trickle(client, step, pause):
    try:
        while not over.wait(pause):
            client.send(bytes(step))
    except ConnectionError:
        pass


def begins_to_write():
    client = Raw(where, SIMPLE)
    client.send(request(SIMPLE, WRITE, 0, 32 * MIB) + bytes(4096))
    wait_for_requests(control, 1, TIMEOUT)
    return client


# The server keeps a client on a slow line. (Over a unix socket the kernel may report progress only
# when all data has arrived.)
paces = [(1, 0.2)] * 3 + [(64 << 10, 0.05) if isinstance(where, int) else (1, 0.2)]
stuck = paces.count((1, 0.2))
before = ended()
clients = [begins_to_write() for _ in paces]
threads = [threading.Thread(target=trickle, args=(client, *pace)) for client, pace in zip(clients, paces)]
for thread in threads:
    thread.start()
with Raw(where, SIMPLE) as honest:
    honest.send(request(SIMPLE, WRITE, 0, 5 * MIB // 4) + bytes(5 * MIB // 4))
    assert honest.reply(0) == (1, 0, b"")
    assert ended() == before, "the largest request of the kernel's client had to wait"
    honest.request(READ, 0, 8 * MIB)
    assert honest.reply(8 * MIB) == (1, 0, bytes(8 * MIB))
over.set()
for thread in threads:
    thread.join()
assert ended() == before + stuck, f"{ended() - before} were disconnected, not {stuck}"
for client in clients:
    client.socket.close()
EOF2
	done
	expect_equal "clients that sent little" 7 \
		"$(grep -c "disconnected: sent too little of the data of a write in $limit seconds, less than 64 KiB/s, while" "$log")"
	stop_server
}

ends_who_trickles io_uring
ends_who_sends_little io_uring
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
ends_who_trickles epoll
ends_who_sends_little epoll
