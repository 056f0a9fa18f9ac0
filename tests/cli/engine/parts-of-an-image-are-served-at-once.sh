#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Several servers, and several exports of one server, can write to disjoint parts of one image at
# the same time; overlapping parts are refused, and meanwhile neither a server nor QEMU gets the
# whole image.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo qemu-io qemu-img
image=$dir/disk.img
truncate -s 16M "$image"

# Starts each as a server of its own, which keeps running.
serves() # NAME OPTION...
{
	local server=$1
	shift
	start_nbdloopd "$@" "$image"
	quietly qemu-io -r -f raw -c 'read 0 4096' "$uri"
}

refused() # OPTION...
{
	server=refused refuse_nbdloopd 1 -U "$dir/refused.sock" "$@" "$image"
	log=$dir/refused.log expect_log "disk\.img: no (exclusive|shared) lock, because process $holder \(nbdloopd\) is using the image"
}

stops() # NAME...
{
	local server
	for server; do
		stop_server
	done
}

expect_no_qemu()
{
	must_fail qemu-io -f raw -c 'write 8M 4096' "$image"
	must_fail qemu-img convert -f raw -O raw "$image" "$dir/copy"
	quietly qemu-img info -U "$image"
}

serves one --offset=1M --sizelimit=1M
holder=$pid
quietly qemu-io -f raw -c 'write -P 1 0 1M' "$uri"
serves two --offset=2M --sizelimit=1M
quietly qemu-io -f raw -c 'write -P 2 0 1M' "$uri"
serves three -r --offset=3M
serves four -r --offset=4M --sizelimit=1M
refused --offset=1M --sizelimit=4k
refused --offset=1M --sizelimit=1M -r
refused --sizelimit=1025k
expect_no_qemu
must_fail nbdkit -U - "$plugin" "$image" --run 'nbdinfo --size "$uri"'
quietly nbdkit -U - "$plugin" "$image" sizelimit=1M --run 'nbdinfo --size "$uri"'
end_process two KILL
# The part is free as soon as the killed server has no I/O in progress any more.
serves two --offset=2M --sizelimit=1M
stops one two
refuse_nbdloopd 1 -U "$dir/refused.sock" --offset=4M "$image"
# Only readers are left.
quietly qemu-img convert -f raw -O raw "$image" "$dir/copy"
must_fail qemu-io -f raw -c 'write 8M 4096' "$image"
serves five -r
stops three four five
quietly qemu-io -f raw -c 'read -P 1 1M 1M' -c 'read -P 2 2M 1M' -c 'write 8M 4096' "$image"

# The same parts within one server.
cat >"$dir/conf" <<EOF
[export one]
file = $image
sizelimit = 1M

[export two]
file = $image
offset = 1M
EOF
serve_both()
{
	server_files
	start_nbdloopd --config "$dir/conf"
	quietly qemu-io -f raw -c 'write 0 4096' "nbd+unix:///one?socket=$sock"
	quietly qemu-io -f raw -c 'write 0 4096' "nbd+unix:///two?socket=$sock"
	stop_server
}
serve_both
sed -i 's/offset = 1M/offset = 1020k/' "$dir/conf"
refuse_nbdloopd 1 -U "$dir/refused.sock" --config "$dir/conf"
expect_log 'is the same image as that of the export'

# A block device, which one of the two servers claims.
attach_loop "$image"
image=$loop_device
serves one --offset=1M --sizelimit=1M
serves two --offset=2M
quietly qemu-io -f raw -c 'write 0 4M' -c 'discard 0 4M' -c 'write -z 0 4M' -c 'read -P 0 0 4M' "$uri"
stops one two
