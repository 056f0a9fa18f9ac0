#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A clone begins as its base, keeps what is written to it through ends and kills of its server, and
# leaves the base alone; layers stand on sealed layers; what would mix up bytes is refused.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io qemu-img
base=$dir/base.raw
head -c 8M /dev/urandom >"$base"
cp -p "$base" "$dir/before.raw"

clone()
{
	quietly nbdloop clone "$@"
}

use() # QEMU-IO-COMMAND...
{
	local commands=() command
	for command; do
		commands+=(-c "$command")
	done
	quietly qemu-io -f raw "${commands[@]}" "$uri"
}

lives()
{
	rm -f "$dir"/*.layer
	clone "$base" "$dir/one.layer"
	clone --size=10M "$base" "$dir/two.layer"
	start_server -- "$dir/one.layer" engine="$engine"
	quietly qemu-img compare -f raw -F raw "$uri" "$base"
	use 'write -P 0x41 1M 256k' 'write -P 0x42 5000 700' 'write -z 2M 1M' 'discard 4M 64k' \
		'read -P 0x41 1M 256k' 'read -P 0x42 5000 700' 'read -P 0 2M 1M'
	kill_server
	start_server -- "$dir/one.layer" engine="$engine"
	use 'read -P 0x41 1M 256k' 'read -P 0x42 5000 700' 'read -P 0 2M 1M' 'write -P 0x43 1M 4k' flush
	stop_server
	start_server -- "$dir/two.layer" engine="$engine"
	use 'read -P 0 8M 2M' 'write -P 0x44 9M 4k' 'read -P 0x44 9M 4k'
	stop_server
	clone --seal "$dir/one.layer"
	clone "$dir/one.layer" "$dir/three.layer"
	start_server -- "$dir/three.layer" engine="$engine"
	use 'read -P 0x43 1M 4k' 'read -P 0x41 1028k 252k' 'read -P 0x42 5000 700' 'write -P 0x45 6M 9999' \
		'read -P 0x45 6M 9999'
	stop_server
	quietly cmp "$base" "$dir/before.raw"
}

each_engine lives

# What takes less than the base: a layer holds only the difference.
clone "$base" "$dir/small.layer"
[ "$(du -k "$dir/small.layer" | cut -f 1)" -le 64 ] || fail "an empty layer takes space"

# Refused: each with its reason.
must_fail nbdloop clone "$base" "$dir/small.layer"
must_fail nbdloop clone "$dir/small.layer" "$dir/other.layer"
grep -q 'still written to' "$dir/refused.log" || fail "a layer that is no base: $(cat "$dir/refused.log")"
must_fail nbdloop clone "$dir/nothing.raw" "$dir/other.layer"
must_fail nbdloop clone "$base"
must_fail nbdloop clone --granule=5000 "$base" "$dir/other.layer"
[ ! -e "$dir/other.layer" ] || fail "a refused clone leaves a file"

mkdir "$dir/far"
clone "$base" "$dir/far/away.layer"
refuse_nbdloopd 1 -U "$dir/sock" "$dir/far/away.layer"
expect_log "its base $base is not in the layer's directory; base-path=DIRECTORY"
start_nbdloopd --base-path="$dir" "$dir/far/away.layer"
stop_server

touch "$base"
refuse_nbdloopd 1 -U "$dir/sock" "$dir/small.layer"
expect_log 'its base base.raw has changed since the layer was made: it was modified later'
mv "$base" "$dir/moved.raw"
refuse_nbdloopd 1 -U "$dir/sock" "$dir/small.layer"
expect_log 'its base base.raw does not exist'
mv "$dir/moved.raw" "$base"

# A damaged map is told, and not taken for an empty one.
cp -p "$dir/before.raw" "$dir/sound.raw"
clone "$dir/sound.raw" "$dir/torn.layer"
start_nbdloopd "$dir/torn.layer"
use 'write -P 0x46 0 64k' flush
stop_server
printf '\377' | dd of="$dir/torn.layer" bs=1 seek=8300 conv=notrunc status=none
refuse_nbdloopd 1 -U "$dir/sock" "$dir/torn.layer"
expect_log 'its map is damaged'
truncate -s 6M "$dir/torn.layer"
refuse_nbdloopd 1 -U "$dir/sock" "$dir/torn.layer"
expect_log 'the layer was cut short'
