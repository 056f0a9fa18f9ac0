#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Without an image in Ceph, options for such images do nothing: nbdloopd says so, and takes another
# file by its control socket. Of a file's own options, one of these is an error
# (nbdloopd-start-errors-name-what-is-wrong.sh).
. "$(dirname "$0")/../../../lib/functions.sh"

require socat
image=$dir/disk.img
truncate -s 1M "$image" "$dir/other.img"

start_nbdloopd --cluster-timeout=5 --control="$dir/control" --export "a=$image"
expect_log 'warning: cluster-timeout is not used: .*no export has one'
echo "add b=$dir/other.img" | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/answer"
grep -q '"name": *"b"' "$dir/answer" || fail "a file is not added: $(cat "$dir/answer")"
stop_server
start_nbdloopd "$image"
reject_log 'not used'
