#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Data that qemu-io wrote, aligned or not, directly or through a virtual machine's drive, is in the
# image after a server restart.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-io qemu-system-x86_64
image=$dir/disk.img

# Each row: pattern, offset, length. The first write is unaligned for any block size of a disk.
rows="0x11 12345 54321
0x22 1048576 4096
0x33 2097152 8388608
0x44 33553920 512"

io() # COMMAND...
{
	local arguments=()
	for command; do
		arguments+=(-c "$command")
	done
	quietly qemu-io -f raw "${arguments[@]}" "$uri"
}

verify_rows()
{
	local pattern offset length commands=()
	while read -r pattern offset length; do
		commands+=("read -P $pattern $offset $length")
	done <<<"$rows"
	io "${commands[@]}" "read -P 0 0 12345" "read -P 0 66666 65536"
}

write_rows()
{
	local pattern offset length commands=()
	while read -r pattern offset length; do
		commands+=("write -P $pattern $offset $length")
	done <<<"$rows"
	io "${commands[@]}" flush
}

# The same writes through a drive of a running virtual machine, by its monitor.
write_rows_in_machine()
{
	local pattern offset length
	{
		while read -r pattern offset length; do
			echo "qemu-io drive0 \"write -P $pattern $offset $length\""
		done <<<"$rows"
		echo 'qemu-io drive0 "flush"'
		echo quit
	} >"$dir/monitor"
	timeout $((60 * time_factor)) qemu-system-x86_64 -machine pc,accel=tcg -S -nodefaults -display none \
		-drive "file=$uri,format=raw,if=none,id=drive0" -device virtio-blk,drive=drive0 \
		-monitor stdio <"$dir/monitor" >"$dir/monitor.log" 2>&1 ||
		fail "the virtual machine failed"
	expect_equal "writes that succeeded" 4 "$(grep -c 'bytes at offset' "$dir/monitor.log")"
}

survives() # WRITER DIRECT-IO
{
	rm -f "$image"
	truncate -s 32M "$image"
	start_server -- "$image" engine="$engine" direct-io="$2"
	"$1"
	verify_rows
	stop_server
	start_server -- "$image" engine="$engine" direct-io="$2"
	verify_rows
	stop_server
}

for direct_io in on off; do
	each_target survives write_rows $direct_io
	each_target survives write_rows_in_machine $direct_io
done
