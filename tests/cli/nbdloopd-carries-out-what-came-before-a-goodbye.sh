#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a client sends writes and then NBD_CMD_DISC, and closes its socket at once without reading
# any reply, the server carries out those writes, as the NBD specification demands: whether they are
# few, or more than the server receives or begins at once.
. "$(dirname "$0")/../lib/functions.sh"

forbid=$(lib_program forbid_syscall)
image=$dir/disk.img

cat >"$dir/client.py" <<'EOP'
import sys, time
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

path, image = sys.argv[2:]
path = int(path) if path.isdigit() else path
SIZE, CLIENTS, MANY = 4096, 100, 1000


def content(client, i):
    return (b"%d.%d " % (client, i)).ljust(SIZE, b"x")


def leave(client, first, writes):
    """`writes` blocks from `first`, every second one."""
    connection = Raw(path, SIMPLE)
    connection.send(b"".join(request(SIMPLE, WRITE, (first + 2 * i) * SIZE, SIZE) + content(client, i) for i in range(writes)) +
                    request(SIMPLE, DISC))
    connection.socket.close()
    wanted = [content(client, i) for i in range(writes)]
    end = time.monotonic() + TIMEOUT
    while True:
        with open(image, "rb") as f:
            f.seek(first * SIZE)
            data = f.read((2 * writes - 1) * SIZE)
        missing = [i for i in range(writes) if data[2 * i * SIZE:(2 * i + 1) * SIZE] != wanted[i]]
        if not missing:
            return
        assert time.monotonic() < end, f"{len(missing)} of {writes} writes of client {client} are missing, first {missing[0]}"
        time.sleep(0.001)


for client in range(CLIENTS):
    leave(client, 2 * client, 1)
# Over TCP, close() itself discards data that is still to be sent when a reply was not read.
if isinstance(path, str):
    for client in range(3):
        leave(client, 1000, MANY)
EOP

leaves() # LOOP
{
	local server_prefix=() server_listen=()
	test "$1" = io_uring || server_prefix=("$forbid" io_uring_setup=EPERM --)
	for address in "" "$(free_port)"; do
		server_listen=()
		test -z "$address" || server_listen=(--address 127.0.0.1 --port "$address")
		rm -f "$image"
		truncate -s 16M "$image"
		start_nbdloopd --threads=2 "${server_listen[@]}" "$image"
		quietly "$python" "$dir/client.py" "$lib" "${address:-$sock}" "$image" || fail "writes are missing ($1, ${address:-unix})"
		reject_log 'gave up on this connection'
		stop_server
	done
}

leaves io_uring
leaves epoll
