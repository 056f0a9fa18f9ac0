#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# GRUB's rescue floppy boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/grub-rescue/grub-rescue-floppy.img
[ -e "$image" ] || skip "no $image (package grub-rescue-pc)"

# On a busy machine GRUB may see its menu's time run out at once: it then runs the menu's first
# entry, which waits for a key.  The head of its screen may be missed as well.
proof='GNU GRUB|Press any key to continue|highlighted entry will be executed'
each_target image_boots "$image" on a if=floppy "$proof"
# The page cache is the engine's business, which is the same in both servers.
each_engine image_boots "$image" off a if=floppy "$proof"
