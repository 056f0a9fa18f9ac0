#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that take no replies, have filled their sockets and send no more don't slow down other
# clients of their thread, although much data is unread: the processor time per request stays about
# the same.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"

stays_fast() # EVENT-LOOP
{
	local port
	port=$(free_port)
	start_nbdloopd --threads=1 --port="$port" --address=127.0.0.1 "$image"
	"$python" - "$lib" "$port" "$pid" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with the event loop on $1"
import glob, sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

MIB = 1 << 20
port, pid = map(int, sys.argv[2:])


def processor_time():
    """Seconds, of all threads."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def time_of_reads(client, count=500):
    before = processor_time()
    for _ in range(count):
        client.request(READ, 0, 4096)
        client.reply(4096)
    return (processor_time() - before) / count


def half_closed():
    client = Raw(port, SIMPLE)
    # The socket's receive buffer grows with the data that it receives.
    for _ in range(40):
        client.send(request(SIMPLE, WRITE, 0, MIB) + bytes(MIB))
    for _ in range(40):
        client.reply()
    client.send(request(SIMPLE, READ, 0, 65536) * 600)
    time.sleep(0.3)
    client.send(request(SIMPLE, FLUSH) * (2 * MIB // 28) + request(SIMPLE, DISC))
    client.socket.shutdown(socket.SHUT_WR)
    return client


honest = Raw(port, SIMPLE)
time_of_reads(honest)
alone = time_of_reads(honest)
others = [half_closed() for _ in range(4)]
time.sleep(2)
beside = time_of_reads(honest)
print(f"{alone * 1e6:.0f} us for a read alone, {beside * 1e6:.0f} us beside the others")
assert beside < 6 * alone + 50e-6
EOF2
	stop_server
}

stays_fast io_uring
server_prefix=("$(lib_program forbid_syscall)" io_uring_setup=EPERM --)
stays_fast epoll
