# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # functions.sh sets the variables
# A virtual PC without acceleration, for the scripts that boot images; sourced after functions.sh.
# The output of SeaBIOS and of the boot loaders arrives at the serial port, and is in $console.

console=$dir/console

start_machine() # [QEMU-ARGUMENT...]
{
	rm -f "$console"
	spawn qemu timeout $((150 * time_factor)) qemu-system-x86_64 -machine pc,accel=tcg,graphics=off -m 64 \
		-nodefaults -display none -serial "file:$console" "$@"
}

stop_machine()
{
	end_process qemu TERM
}

expect_console() # REGEX
{
	poll_for 90 console_shows_or_machine_gone "$1" || true
	! process_gone "${process_pids[qemu]}" || fail "qemu ended by itself"
	grep -aqE -- "$1" "$console" || {
		cp "$console" "$dir/console.log"
		fail "the console does not show: $1"
	}
}

console_shows_or_machine_gone() # REGEX
{
	grep -aqsE -- "$1" "$console" || process_gone "${process_pids[qemu]}"
}

# Serves an image read-only on $engine and boots a machine from it.
image_boots() # IMAGE DIRECT-IO BOOT-LETTER DRIVE-PROPERTIES REGEX
{
	start_server -r -- "$1" engine="$engine" direct-io="$2"
	start_machine -boot "$3" -drive "file=$uri,format=raw,readonly=on,$4"
	expect_console "$5"
	stop_machine
	stop_server
}
