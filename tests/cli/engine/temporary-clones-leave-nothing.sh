#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A temporary clone begins as its base, keeps what is written to it while its server lives, leaves
# the base alone, and leaves nothing behind, even after a kill.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io qemu-img
base=$dir/base.raw
head -c 8M /dev/urandom >"$base"
cp -p "$base" "$dir/before.raw"
mkdir "$dir/scratch"

use() # QEMU-IO-COMMAND...
{
	local commands=() command
	for command; do
		commands+=(-c "$command")
	done
	quietly qemu-io -f raw "${commands[@]}" "$uri"
}

unchanged()
{
	quietly cmp "$base" "$dir/before.raw"
	[ "$(ls -A "$dir/scratch")" = "" ] || fail "files are left: $(ls -A "$dir/scratch")"
}

lives()
{
	start_server -- "$base" engine="$engine" temporary=on scratch="$dir/scratch"
	quietly qemu-img compare -f raw -F raw "$uri" "$base"
	use 'write -P 0x41 1M 256k' 'write -P 0x42 5000 700' 'write -z 2M 1M' 'discard 4M 64k' \
		'write -f -P 0x43 6M 4k' flush
	# Another client, the same clone.
	use 'read -P 0x41 1M 256k' 'read -P 0x42 5000 700' 'read -P 0 2M 1M' 'read -P 0x43 6M 4k'
	kill_server
	unchanged
	start_server -- "$base" engine="$engine" temporary=on scratch="$dir/scratch"
	quietly qemu-img compare -f raw -F raw "$uri" "$base"
	stop_server
	unchanged
}

each_engine lives

# What stands on a layer, also one that is not sealed.
quietly nbdloop clone "$base" "$dir/one.layer"
start_nbdloopd "$dir/one.layer"
use 'write -P 0x51 1M 64k'
stop_server
cp -p "$dir/one.layer" "$dir/before.layer"
for seal in no yes; do
	[ "$seal" = no ] || quietly nbdloop clone --seal "$dir/one.layer"
	[ "$seal" = no ] || cp -p "$dir/one.layer" "$dir/before.layer"
	start_nbdloopd --temporary --scratch="$dir/scratch" "$dir/one.layer"
	use 'read -P 0x51 1M 64k' 'write -P 0x52 1028k 4k' 'write -P 0x53 3000 100' 'read -P 0x51 1M 4k' \
		'read -P 0x52 1028k 4k' 'read -P 0x51 1032k 32k' 'read -P 0x53 3000 100'
	stop_server
	quietly cmp "$dir/one.layer" "$dir/before.layer"
	unchanged
done

# A window, and a base that ends within a granule.
head -c 1000001 "$base" >"$dir/odd.raw"
start_nbdloopd --temporary --offset=1000 "$dir/odd.raw"
use 'write -P 0x61 998000 1001' 'read -P 0x61 998000 1001'
"$python" -c "
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
assert h.get_size() == 999001
assert h.pread(998000, 0) == open(sys.argv[2], 'rb').read()[1000:999000]
" "$uri" "$dir/odd.raw"
stop_server

# The start-up line, the status, the lists.
start_nbdloopd --temporary --control "$dir/ctl" "$base"
name="temporary clone of $base in $dir"
expect_log "^nbdloopd: $name: 8388608 bytes,.* writable$"
expect_equal "its file" "$name" "$(control "$dir/ctl" status exports.0.file)"
expect_equal "temporary" true "$(control "$dir/ctl" status exports.0.temporary)"
nbdloop export list "$dir/ctl" >"$dir/list"
grep -q "$name" "$dir/list" || fail "not in the list: $(cat "$dir/list")"
# Readers may share the base, and no writer.
refuse_nbdloopd 1 -U "$dir/other" "$base"
expect_log "$base: no exclusive lock, because process"
spawn second nbdloopd --temporary -U "$dir/second" "$base"
wait_until "the second clone" listens "$dir/second"
quietly qemu-io -f raw -c 'write -P 0x71 0 4k' "nbd+unix:///?socket=$dir/second"
end_process second TERM
quietly qemu-img compare -f raw -F raw "$uri" "$base"
# Checkpoints end with the clone, and leave no file beside the base.
quietly nbdloop checkpoint create "$dir/ctl" one
stop_server
[ ! -e "$base.changes" ] || fail "there is a record of the clone's checkpoints"

# Added to a running server, and by a configuration file.
cat >"$dir/conf" <<EOF
[export a]
file = $base
temporary = on
scratch = $dir/scratch
EOF
start_nbdloopd --control "$dir/ctl" --config "$dir/conf"
quietly nbdloop export add "$dir/ctl:b" "$base" temporary=on
whole=$uri
for uri in "${whole/\?/a?}" "${whole/\?/b?}"; do
	use 'write -P 0x81 0 1M' 'read -P 0x81 0 1M'
done
quietly nbdloop export remove "$dir/ctl:b"
stop_server
unchanged

# With --read-only, it is the image itself.
start_nbdloopd --temporary --read-only "$base"
expect_log "^nbdloopd: $base: 8388608 bytes,.* read-only$"
stop_server

# Refused: each with its reason.
refuse_nbdloopd 1 -U "$dir/sock" --temporary --scratch="$dir/nowhere" "$base"
expect_log "no file can be made in $dir/nowhere: No such file or directory; scratch=DIR names"
refuse_nbdloopd 1 -U "$dir/sock" --temporary --changes="$dir/record" "$base"
expect_log 'a temporary clone is thrown away at the end, and its checkpoints with it'
# A default must not be without effect: clients would write to the image itself.
refuse_nbdloopd 1 -U "$dir/sock" --temporary rbd:pool/image
expect_log 'rbd:pool/image: temporary=on is not possible: it is only for files and block devices'
must_fail nbdkit loop dir="$dir" temporary=on
grep -q 'temporary=on is for file=' "$dir/refused.log" || fail "dir=: $(cat "$dir/refused.log")"

# A device that the kernel writes to may change under the clone.
attach_loop "$base"
refuse_nbdloopd 1 -U "$dir/sock" --temporary "$base"
expect_log "temporary clone: its base $base may change: .*loop"
detach_loop "$loop_device"

# A full directory fails the write, names itself, and spoils nothing else.
mount_at "$dir/small" -t tmpfs -o size=1M tmpfs
full()
{
	start_server -- "$base" engine="$engine" temporary=on scratch="$dir/small"
	use 'write -P 0x91 0 512k'
	must_fail qemu-io -f raw -c 'write -P 0x92 2M 2M' "$uri"
	grep -q 'No space left on device' "$dir/refused.log" || fail "ENOSPC: $(cat "$dir/refused.log")"
	expect_log "temporary clone of $base in $dir/small: write .* failed: No space left on device"
	use 'read -P 0x91 0 512k' 'discard 0 512k' 'write -P 0x93 4M 256k' 'read -P 0x93 4M 256k' flush
	stop_server
	unchanged
}
each_engine full
