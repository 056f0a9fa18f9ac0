#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Data that a guest wrote to its drive, an export attached read-write, is in the image after a
# server restart.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/qemu.sh"

require qemu-system-x86_64 as ld cmp nbdcopy
[ "$(uname -m)" = x86_64 ] || skip "the guest's boot sector is assembled with an x86 assembler"
image=$dir/disk.img
sector=$dir/sector
as --32 -o "$dir/sector.o" "$lib/boot_writer.S"
ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o "$sector" "$dir/sector.o"

# The boot sector $sector, 63 sectors of zeroes, and then the data that the guest should write.
write_wanted()
{
	truncate -s 16M "$image"
	dd if="$sector" of="$image" conv=notrunc status=none
	cp --sparse=always "$image" "$dir/wanted"
	for i in 64 65 66 67 68 69 70 71; do
		dd if="$sector" of="$dir/wanted" seek="$i" conv=notrunc status=none
	done
}

guest_writes() # DIRECT-IO
{
	rm -f "$image"
	write_wanted
	start_server -- "$image" engine="$engine" direct-io="$1"
	start_machine -drive "file=$uri,format=raw,if=ide"
	expect_console 'GUEST (HAS WRITTEN|FAILED)'
	grep -aq 'GUEST HAS WRITTEN' "$console" || fail "the guest read back something else"
	stop_machine
	stop_server

	start_server -r -- "$image" engine="$engine" direct-io="$1"
	quietly nbdcopy "$uri" "$dir/seen"
	stop_server
	quietly cmp "$dir/seen" "$dir/wanted"
	quietly cmp "$image" "$dir/wanted"
}

each_target guest_writes on
each_target guest_writes off
