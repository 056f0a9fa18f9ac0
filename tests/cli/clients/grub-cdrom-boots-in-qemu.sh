#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# GRUB's rescue CD boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/grub-rescue/grub-rescue-cdrom.iso
[ -e "$image" ] || skip "no $image (package grub-rescue-pc)"

# On a busy machine, a part of GRUB's menu may be missing on the serial line, or the menu's timeout
# may expire at once: GRUB then runs the first
# entry, which waits for a key.
proof='GNU GRUB|highlighted entry will be executed|Press any key to continue'
each_target image_boots "$image" on d if=ide,media=cdrom "$proof"
# The page cache concerns only the engine, which is the same in both servers.
each_engine image_boots "$image" off d if=ide,media=cdrom "$proof"
