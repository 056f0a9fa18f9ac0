#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that is lost while an increment is verified is connected to again, with the names of the
# bitmaps that the backup began with: the new state of the target has replaced them meanwhile.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io cmp
disk=$dir/disk.img copy=$dir/copy.img proxy=$dir/proxy.sock
truncate -s 4M "$disk"
start_nbdloopd --control "$dir/control" --export "disk=$disk"
quietly nbdloop checkpoint create "$dir/control" monday
tuesday=tuesday-whose-name-takes-more-memory-than-that-of-monday
quietly nbdloop checkpoint create "$dir/control" $tuesday
quietly nbdloop backup --bitmap=monday "nbd+unix:///disk?socket=$sock" "$copy"
quietly qemu-io -f raw -c 'write -P 7 0 2M' "nbd+unix:///disk?socket=$sock"

# The copy takes 2 MiB and some answers; so does the comparison with the increment, and then that
# with the target.
spawn proxy python3 "$own_python" "$proxy" "$sock" $((5 << 20)) "$dir/cut"
wait_until "the proxy listens" listens "$proxy"
quietly nbdloop backup --incremental --next-bitmap=$tuesday --verify --force "nbd+unix:///disk?socket=$proxy" "$copy"
[ -e "$dir/cut" ] || fail "the proxy has cut no connection"
quietly cmp "$disk" "$copy"
end_process proxy KILL
stop_server
