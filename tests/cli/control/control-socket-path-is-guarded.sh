#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The server replaces a control socket that a dead server left behind; it leaves alone a socket that
# is in use and a file that is not a socket, and refuses to start.
. "$(dirname "$0")/../../lib/functions.sh"

image=$dir/disk.img
other=$dir/other.img
truncate -s 1M "$image" "$other"
socket=$dir/control

start_server -- "$image" control="$socket"
kill_server
[ -S "$socket" ] || fail "a killed server cannot have removed its socket"
start_server -- "$image" control="$socket"
expect_equal pid "$pid" "$(control "$socket" status pid)"

server=second refuse_start -- "$other" control="$socket"
log=$dir/second.log expect_log 'control'
expect_equal "pid after the second server's try" "$pid" "$(control "$socket" status pid)"
stop_server
[ ! -e "$socket" ] || fail "the socket is still there after the server's end"

echo precious >"$socket"
refuse_start -- "$image" control="$socket"
expect_log 'control'
expect_equal "the file" precious "$(cat "$socket")"
