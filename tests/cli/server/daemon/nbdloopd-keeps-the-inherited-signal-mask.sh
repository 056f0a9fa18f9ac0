#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A signal that nbdloopd's parent blocked stays pending and does nothing, as with qemu-nbd and
# nbdkit; the other signals are taken.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"

pending() # NUMBER OF THE SIGNAL
{
	(((0x$(sed -n 's/^ShdPnd:\t//p' "/proc/$pid/status") >> ($1 - 1)) & 1))
}

# keeps SIGNAL ENDING
keeps()
{
	server_prefix=(env --default-signal --block-signal="$1")
	start_nbdloopd "$image"
	server_prefix=()
	kill -s "$1" "$pid"
	wait_until "SIG$1 is pending" pending "$(kill -l "$1")"
	expect_equal "size with SIG$1 pending" 1048576 "$(nbdinfo --size "$uri")"
	pending "$(kill -l "$1")" || fail "SIG$1 was taken"
	kill -s "$2" "$pid"
	end_process server
	expect_equal "status after SIG$2" 0 "$end_status"
	reject_log "configuration"
}

keeps INT TERM
keeps TERM INT
keeps HUP TERM
