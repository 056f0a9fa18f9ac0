#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The room of an image that was removed from the server, and then deleted, is free while the server
# runs: the sandbox once held each image of the configuration to the server's end.
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "mounting"
mount_at "$dir/small" -t tmpfs -o size=16M tmpfs
dd if=/dev/urandom of="$dir/small/a.img" bs=1M count=4 status=none
truncate -s 1M "$dir/small/b.img"
start_nbdloopd --control "$dir/control" --export "a=$dir/small/a.img" --export "b=$dir/small/b.img"
expect_equal "what was removed" a "$(control "$dir/control" "remove export=a" removed)"
rm "$dir/small/a.img"
has_room()
{
	[ "$(stat -f -c %f "$dir/small")" -ge $(((16 << 20) / $(stat -f -c %S "$dir/small") - 64)) ]
}
wait_until "the deleted image's room is free" has_room
