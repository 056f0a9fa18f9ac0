#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd tells systemd, the reader of --notify-fd and its pid file when clients can connect; it
# also tells systemd when it reads its configuration again and when it ends.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image" "$dir/more.img"

"$python" "$own_python" "$dir" >"$dir/check.log" 2>&1 || fail "it does not tell, or too early"

# A server that can't start leaves no pid file of its own, and doesn't touch another server's.
echo 4711 >"$dir/pid"
refuse_nbdloopd 1 -U "$dir/nowhere/socket" --pid-file "$dir/pid" "$image"
expect_equal "another server's pid file" 4711 "$(cat "$dir/pid")"
