#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The iPXE CD boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/ipxe/ipxe.iso
[ -e "$image" ] || skip "no $image (package ipxe)"

# One engine will do: grub-cdrom-boots-in-qemu.sh has each. The page cache concerns only the engine,
# which is the same in both servers.
engines=${engines%% *}
each_target image_boots "$image" on d if=ide,media=cdrom 'Open Source Network Boot Firmware'
each_engine image_boots "$image" off d if=ide,media=cdrom 'Open Source Network Boot Firmware'
