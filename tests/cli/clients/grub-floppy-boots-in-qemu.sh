#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# GRUB's rescue floppy boots in a virtual PC whose drive is the export.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64
image=/usr/lib/grub-rescue/grub-rescue-floppy.img
[ -e "$image" ] || skip "no $image (package grub-rescue-pc)"

# On a busy machine, a part of GRUB's menu may be missing on the serial line, or the menu's timeout
# may expire at once: GRUB then runs the first
# entry, which waits for a key. The test may miss the top of GRUB's screen as well.
proof='GNU GRUB|Press any key to continue|highlighted entry will be executed'
# One engine will do: grub-cdrom-boots-in-qemu.sh has each. The page cache concerns only the engine,
# which is the same in both servers.
engines=${engines%% *}
each_target image_boots "$image" on a if=floppy "$proof"
each_engine image_boots "$image" off a if=floppy "$proof"
