#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While a server has a layer on a base, nobody else writes to the base: writers are refused, a block
# device is claimed, and what ignores both is told. A base that the kernel may write to is refused.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io
base=$dir/base.raw
head -c 4M /dev/urandom >"$base"
quietly nbdloop clone "$base" "$dir/vm.layer"
cp -p "$base" "$dir/apart.raw"
quietly nbdloop clone "$dir/apart.raw" "$dir/apart.layer"

awaits_log() # REGEX
{
	kill -HUP "$pid"
	wait_until "the log says: $1" grep -qE -- "$1" "$log"
}

# Locks, both ways.
start_nbdloopd "$dir/vm.layer"
refuse_nbdloopd 1 -U "$dir/second.sock" "$base"
expect_log "$base: no exclusive lock, because process [0-9]* "
must_fail qemu-io -f raw -c 'write 0 4k' "$base"
quietly qemu-io -r -f raw -c 'read 0 4k' "$base"
stop_server
start_nbdloopd "$base"
refuse_nbdloopd 1 -U "$dir/second.sock" "$dir/vm.layer"
expect_log 'base.raw: no shared lock, because process [0-9]* '
stop_server

# A program that ignores locks changes the base.
start_nbdloopd "$dir/vm.layer"
touch "$base"
awaits_log 'warning: .*vm.layer: its base base.raw was changed while it was in use'
stop_server
refuse_nbdloopd 1 -U "$dir/second.sock" "$dir/vm.layer"
expect_log 'it was modified later; changed-base=on serves a mixture'
refuse_nbdloopd 1 -U "$dir/second.sock" --force "$dir/vm.layer"
start_nbdloopd --changed-base "$dir/vm.layer"
stop_server
expect_log 'warning: .*vm.layer: its base base.raw has changed: it was modified later; with changed-base=on'

# A loop device, whose users the locks do not know.
[ "$(id -u)" = 0 ] || exit 0
require losetup
attach_loop "$dir/apart.raw"
refuse_nbdloopd 1 -U "$dir/second.sock" "$dir/apart.layer"
expect_log "its base apart.raw may change: $loop_device is made of it.*end that first; with force=on"
start_nbdloopd --force "$dir/apart.layer"
stop_server
expect_log 'warning: .*its base apart.raw may change'
detach_loop "$loop_device"
start_nbdloopd "$dir/apart.layer"
attach_loop "$dir/apart.raw"
awaits_log "warning: .*its base apart.raw may change: $loop_device is made of it"
stop_server

# A block device as the base: of two servers, one has the claim.
mkdir "$dir/on-device"
for name in one two; do
	quietly nbdloop clone "$loop_device" "$dir/on-device/$name.layer"
done
start_nbdloopd --base-path=/dev "$dir/on-device/one.layer"
must_fail mount "$loop_device" "$dir/on-device"
sh -c "exec nbdloopd --base-path=/dev --run true '$dir/on-device/two.layer'" 2>"$dir/two.log" ||
	fail "a second layer on the device is refused: $(cat "$dir/two.log")"
stop_server
