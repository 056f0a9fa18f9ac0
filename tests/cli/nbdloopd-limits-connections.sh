#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server closes connections over the limit at once, and disconnects a client that doesn't finish
# the handshake in time; a server that is out of descriptors lets clients wait, and uses no
# processor time meanwhile.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
require prlimit
image=$dir/disk.img
truncate -s 1M "$image"

# The third client must stay connected until the fourth has connected.
limit=$((5 * time_factor)) # seconds
start_nbdloopd --max-connections=3 --handshake-limit=$limit "$image"
"$python" - "$uri" $limit $((20 * time_factor)) <<'EOF2' >"$dir/client.log" 2>&1 || fail "the limits do not hold"
import socket, sys, time
import nbd
uri, limit, patience = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = uri.partition("socket=")[2]

def raw():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(limit + patience)
    s.connect(path)
    return s

one, two = nbd.NBD(), nbd.NBD()
one.connect_uri(uri)
two.connect_uri(uri)
mute = raw()
start = time.monotonic()
assert mute.recv(18).startswith(b"NBDMAGIC")
for _ in range(50):
    assert raw().recv(18) == b"", "a fourth connection was served"
assert mute.recv(1) == b"", "the mute client got more than a greeting"
took = time.monotonic() - start
assert took > limit / 2, took
# There is room again after a moment, and a client that has negotiated may be idle.
end = time.monotonic() + patience
while True:
    three = nbd.NBD()
    try:
        three.connect_uri(uri)
        break
    except nbd.Error:
        assert time.monotonic() < end, "there is no room again"
        time.sleep(0.05)
for h in one, two, three:
    assert h.pread(512, 0) == bytes(512)
EOF2
expect_log 'unix \(pid [0-9]+, uid [0-9]+\): refused: there are 3 connections already \(max-connections\)'
expect_log "did not finish the handshake in $limit seconds"
[ "$(grep -c refused "$log")" -lt 20 ] || fail "the log grows with each refused connection"
stop_server

# There are descriptors for the server and a few clients.
server_prefix=(prlimit --nofile=40)
start_nbdloopd --max-connections=0 --threads=1 "$image"
"$python" - "$uri" "$pid" <<'EOF2' >"$dir/client.log" 2>&1 || fail "a server out of descriptors does not recover"
import socket, sys, time
import nbd
uri, pid = sys.argv[1:]
path = uri.partition("socket=")[2]

def ticks():
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

sockets = []
for _ in range(60):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    sockets.append(s)
time.sleep(0.5)
before = ticks()
time.sleep(2)
assert ticks() - before < 40, "it is busy doing nothing"
for s in sockets:
    s.close()
h = nbd.NBD()
h.connect_uri(uri)
assert h.get_size() == 1 << 20
EOF2
expect_log 'cannot accept connections: Too many open files'
stop_server
