#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# GRUB's rescue CD boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/grub-rescue/grub-rescue-cdrom.iso
[ -e "$image" ] || skip "no $image (package grub-rescue-pc)"

# On a busy machine GRUB may see its menu's time run out at once: it then runs the menu's first
# entry, which waits for a key.
proof='GNU GRUB|Press any key to continue'
each_target image_boots "$image" on d if=ide,media=cdrom "$proof"
# The page cache is the engine's business, which is the same in both servers.
each_engine image_boots "$image" off d if=ide,media=cdrom "$proof"
