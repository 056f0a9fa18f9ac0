#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client over TCP gets all of its replies and then the end of file, although it has sent more
# after NBD_CMD_DISC than the server reads. The server doesn't wait for a client that never closes
# its end.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

loses_nothing()
{
	local port
	rm -f "$image"
	truncate -s 1M "$image"
	port=$(free_port)
	start_nbdloopd --engine="$engine" --control "$dir/control" --address=127.0.0.1 --port="$port" "$image"
	"$python" - "$port" "$dir/control" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with engine $engine"
import json, os, socket, struct, sys, time
import nbd
port, control = sys.argv[1:]
LENGTH, READS = 128 << 10, 4

# Returns the socket of a client that has negotiated; its buffers are small.
def connect():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    s.settimeout(20)
    s.connect(("127.0.0.1", int(port)))
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    h.connect_socket(os.dup(s.fileno()))
    return s, h

def request(type, cookie, length=0):
    return struct.pack(">IHHQQI", 0x25609513, 0, type, cookie, 0, length)

def connections():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(control)
        s.sendall(b"status\n")
        return len(json.loads(s.makefile().readline())["connections"])

def wait_for_end():
    end = time.monotonic() + 10
    while connections() > 0:
        assert time.monotonic() < end, "the server waits for a client that has disconnected"
        time.sleep(0.1)

s, h = connect()
s.sendall(b"".join(request(0, i, LENGTH) for i in range(READS)) + request(2, READS) + bytes(256 << 10))
time.sleep(1)
data = bytearray()
while part := s.recv(1 << 20):
    data += part
replies = sorted(bytes(data[at:at + 16 + LENGTH]) for at in range(0, len(data), 16 + LENGTH))
assert replies == [struct.pack(">IIQ", 0x67446698, 0, i) + bytes(LENGTH) for i in range(READS)], len(data)
s.close()
del h
wait_for_end()

s, h = connect()
s.sendall(request(2, 0))
assert s.recv(1) == b""
wait_for_end()
EOF2
	stop_server
}

each_engine loses_nothing
