#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup of the control socket of a server that requires TLS: the socket of its snapshots,
# which only the server's user can use, requires none, and every other socket does. Rules that ask
# for a key hold there, too.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
head -c 1M /dev/urandom >"$dir/disk.img"
truncate -s 1M "$dir/keyed.img"
"$python" -c 'import secrets; print(f"alice:{secrets.token_hex(32)}")' >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"
start_nbdloopd --control "$dir/control" --tls=require --tls-psk="$dir/keys.psk" --export "disk=$dir/disk.img" \
	--export "keyed=$dir/keyed.img,allow=psk:alice"
private=$dir/control.nbd

quietly nbdloop backup "$dir/control:disk" "$dir/copy.img"
quietly cmp "$dir/disk.img" "$dir/copy.img"
[ -S "$private" ] || fail "there is no socket of snapshots"
expect_equal "its mode" 600 "$(stat -c %a "$private")"
must_fail nbdinfo --size "nbd+unix:///disk?socket=$sock"
quietly nbdinfo --size "nbds+unix://alice@/disk?socket=$sock&tls-psk-file=$dir/keys.psk"
quietly nbdinfo --size "nbds+unix://alice@/disk?socket=$private&tls-psk-file=$dir/keys.psk"
# Its clients could change the rules: they may read without one, and not write.
quietly nbdinfo --size "nbd+unix:///keyed?socket=$private"
expect_equal "whether they may only read" "export is read-only: true" \
	"$(nbdinfo "nbd+unix:///keyed?socket=$private" | sed -n 's/^[[:blank:]]*is_read_only:/export is read-only:/p')"
quietly nbdinfo --size "nbds+unix://alice@/keyed?socket=$private&tls-psk-file=$dir/keys.psk"
stop_server
