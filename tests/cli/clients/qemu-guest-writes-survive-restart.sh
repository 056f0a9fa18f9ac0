#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A guest boots from its drive, an export attached read-write, and what it writes is in the image
# after a server restart: with either server, and over TLS with a key and with certificates.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/qemu.sh"
. "$lib/certificates.sh"

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

guest_boots_and_writes() # QEMU-ARGUMENT...
{
	start_machine "$@"
	expect_console 'GUEST (HAS WRITTEN|FAILED)'
	grep -aq 'GUEST HAS WRITTEN' "$console" || fail "the guest read back something else"
	stop_machine
	stop_server
}

guest_writes() # DIRECT-IO
{
	rm -f "$image"
	write_wanted
	start_server -- "$image" engine="$engine" direct-io="$1"
	guest_boots_and_writes -drive "file=$uri,format=raw,if=ide"

	start_server -r -- "$image" engine="$engine" direct-io="$1"
	quietly nbdcopy "$uri" "$dir/seen"
	stop_server
	quietly cmp "$dir/seen" "$dir/wanted"
	quietly cmp "$image" "$dir/wanted"
}

drive_over_tls="driver=raw,file.driver=nbd,file.path=$dir/server.sock,file.tls-creds=tls,file.tls-hostname=localhost,if=ide"

guest_writes_over_tls() # CREDENTIALS SERVER-OPTION
{
	rm -f "$image"
	write_wanted
	start_nbdloopd --engine="$engine" "$2" "$image"
	guest_boots_and_writes -object "$1,id=tls,endpoint=client,dir=$dir/keys" -drive "$drive_over_tls"
	quietly cmp "$image" "$dir/wanted"
}

make_keys()
{
	require certtool
	make_authority "$dir/keys"
	make_certificate "$dir/keys" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'
	make_certificate "$dir/keys" client 'cn = "a guest"\ntls_www_client'
	(umask 077 && echo "guest:000102030405060708090a0b0c0d0e0f" >"$dir/keys/keys.psk")
}

each_target guest_writes on
each_target guest_writes off
make_keys
engines=io_uring each_engine guest_writes_over_tls tls-creds-psk,username=guest --tls-psk="$dir/keys/keys.psk"
engines=threads each_engine guest_writes_over_tls tls-creds-x509 --tls-certificates="$dir/keys"
