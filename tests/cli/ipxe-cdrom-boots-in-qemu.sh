#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The iPXE CD boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/ipxe/ipxe.iso
[ -e "$image" ] || skip "no $image (package ipxe)"

for direct_io in on off; do
	each_engine image_boots "$image" $direct_io d if=ide,media=cdrom 'Open Source Network Boot Firmware'
done
