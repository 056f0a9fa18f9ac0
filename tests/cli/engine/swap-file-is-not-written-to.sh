#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A swap file in use is not served writable, at the start or later, under whatever name and even by
# force: the kernel lets nobody else write to it, so each change would fail. Read-only service only
# warns. If a served file becomes swap space, the log says why its changes fail.
. "$(dirname "$0")/../../lib/functions.sh"

require_root "swap space"
require nbdinfo mkswap swapon
require_python_nbd
image="$dir/swap file.img"
fallocate -l 8M "$image"
chmod 600 "$image"
quietly mkswap "$image"
ln "$image" "$dir/link.img" # not possible afterwards
swapon "$image" 2>"$dir/swapon.log" || skip "no swap file can be used here: $(cat "$dir/swapon.log")"
on_exit sh -c "swapoff '$image' 2>/dev/null || true"

refused() # IMAGE [KEY=VALUE...]
{
	local wanted="not served writable, because it is swap space; " file=$1
	shift
	refuse_nbdloopd 1 -U "$dir/never.sock" "${@/#/--}" "$file"
	expect_log "$wanted"
	start_server -- "$file" "$@"
	must_fail nbdinfo "$uri"
	expect_log "$wanted"
	stop_server
}

refused "$image"
refused "$image" force=on
refused "$dir/link.img"

for server_program in nbdloopd nbdkit; do
	start_server -r -- "$image"
	connect_once
	stop_server
	expect_log "warning: .*it is swap space, so it may change"
done

truncate -s 8M "$dir/plain.img"
start_nbdloopd --control "$dir/control" --export "plain=$dir/plain.img"
control "$dir/control" "add late=$dir/link.img" >"$dir/said" || true
grep -q "not served writable, because it is swap space" "$dir/said" || fail "a swap file was added: $(cat "$dir/said")"
stop_server

# ---- the reverse
swapoff "$image"
start_nbdloopd "$image"
swapon "$image"
must_fail "$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"x" * 4096, 0)' "$uri"
expect_log "write of 4096 bytes at offset 0 failed: .*: it is swap space"
swapoff "$image"
stop_server
