#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# For an image in a format other than raw, the server warns, names the format, and serves the raw
# bytes; for a size that is not a whole number of sectors it prints losetup's warnings if the user
# asks for sectors; a raw image causes no warning.
. "$(dirname "$0")/../../lib/functions.sh"

require qemu-img nbdcopy nbdinfo mke2fs gzip xz zstd

# This engine itself causes no warning.
serve() # IMAGE [KEY=VALUE...]
{
	start_server -r -- "$@" engine=threads
	rm -f "$dir/seen"
	quietly nbdcopy "$uri" "$dir/seen"
	stop_server
}

# The size is a whole number of sectors, so that the copy can be compared.
pad()
{
	truncate -s %4096 "$1"
}

warned() # FILE-NAME-SUFFIX FORMAT-IN-THE-WARNING
{
	local image=$dir/odd.$1
	pad "$image"
	serve "$image"
	quietly cmp "$image" "$dir/seen"
	expect_log "warning: .*odd\.$1: looks like a $2 image, but is served as raw bytes"
	expect_equal "warnings" 1 "$(grep -c warning "$log")"
}

not_warned() # IMAGE
{
	serve "$1"
	quietly cmp "$1" "$dir/seen"
	reject_log warning
}

for format in qcow2 VMDK VHDX VDI; do
	quietly qemu-img create -q -f "${format,,}" "$dir/odd.$format" 2M
	warned $format $format
done
head -c 100000 /dev/urandom >"$dir/data"
for program in gzip xz zstd; do
	"$program" -c "$dir/data" >"$dir/odd.$program"
	warned $program $program-compressed
done

pad "$dir/data"
not_warned "$dir/data"
make_ext4_image "$dir/ext4" 16M
not_warned "$dir/ext4"
truncate -s 1M "$dir/zeroes"
not_warned "$dir/zeroes"
# Data in the middle of a disk that looks like a qcow2 image causes no warning.
{ head -c 4096 /dev/zero && cat "$dir/odd.qcow2"; } >"$dir/inside"
not_warned "$dir/inside"

head -c 1500 /dev/urandom >"$dir/partial"
serve "$dir/partial" sector-size=512
expect_log 'warning: .*partial: file does not end on a 512-byte sector boundary; the last 476 bytes can'"'"'t be reached'
expect_equal "warnings" 1 "$(grep -c warning "$log")"
quietly cmp -n 1024 "$dir/partial" "$dir/seen"
expect_equal "size of the export" 1024 "$(stat -c %s "$dir/seen")"
not_warned "$dir/partial"

head -c 100 /dev/urandom >"$dir/tiny"
start_server -r -- "$dir/tiny" engine=threads sector-size=512
expect_equal "size of the export" 0 "$(nbdinfo --size "$uri")"
stop_server
expect_log 'warning: .*tiny: file is smaller than 512 bytes'
expect_equal "warnings" 1 "$(grep -c warning "$log")"
