#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# qemu-img converts to and from an export, compares with it, maps it, fills it with many requests at
# once, and creates and checks a qcow2 image in it.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-img qemu-io mke2fs
image=$dir/disk.img
make_ext4_image "$dir/source" 48M

works() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 48M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1"
	quietly qemu-img convert -n -f raw -O raw "$dir/source" "$uri"
	quietly qemu-img compare -f raw -F raw "$dir/source" "$uri"
	quietly qemu-img convert -f raw -O qcow2 "$uri" "$dir/copy.qcow2"
	quietly qemu-img compare -f raw -F qcow2 "$dir/source" "$dir/copy.qcow2"
	expect_equal "zeroes in the map" "$(zeroes "$image")" "$(zeroes "$uri")"
	stop_server
	quietly cmp "$dir/source" "$image"

	start_server -- "$image" engine="$engine" direct-io="$1"
	# Many parallel writes, with an occasional flush.
	quietly qemu-img bench -f raw -w --pattern=0x77 -c 1024 -s 3584 -d 64 --flush-interval=128 "$uri"
	quietly qemu-io -f raw -c 'read -P 0x77 0 3584K' "$uri"
	quietly cmp --ignore-initial=3584K "$dir/source" "$image"
	quietly qemu-img create -f qcow2 "$uri" 20M
	quietly qemu-io -f qcow2 -c 'write -P 0x5a 3M 2M' "$uri"
	quietly qemu-img check -f qcow2 "$uri"
	quietly qemu-io -f qcow2 -c 'read -P 0x5a 3M 2M' -c 'read -P 0 5M 1M' "$uri"
	stop_server
	quietly qemu-img check -f qcow2 "$image"
}

# The map's zero extents: offsets and lengths.
zeroes() # IMAGE
{
	qemu-img map -f raw --output=json "$1" | "$python" -c '
import json, sys
print([(e["start"], e["length"]) for e in json.load(sys.stdin) if e["zero"]])'
}

each_target works on
each_target works off
