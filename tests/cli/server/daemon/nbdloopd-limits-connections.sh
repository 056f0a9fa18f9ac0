#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server serves no connections over the limit, and disconnects a client that doesn't finish
# the handshake in time; a server that is out of descriptors lets clients wait, and uses no
# processor time meanwhile.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require prlimit
image=$dir/disk.img
truncate -s 1M "$image"

# The third client must stay connected until the fourth has connected.
limit=$((5 * time_factor)) # seconds
start_nbdloopd --max-connections=3 --handshake-limit=$limit "$image"
"$python" "$own_python" connections "$uri" $limit >"$dir/client.log" 2>&1 || fail "the limits do not hold"
expect_log 'unix \(pid [0-9]+, uid [0-9]+\): refused: there are 3 connections already \(max-connections\)'
expect_log "did not finish the handshake in $limit seconds"
[ "$(grep -c refused "$log")" -lt 20 ] || fail "the log grows with each refused connection"
stop_server

# There are descriptors for the server and a few clients.
server_prefix=(prlimit --nofile=40)
start_nbdloopd --max-connections=0 --threads=1 "$image"
"$python" "$own_python" descriptors "$uri" "$pid" >"$dir/client.log" 2>&1 || fail "a server out of descriptors does not recover"
expect_log 'cannot accept connections: Too many open files'
stop_server
