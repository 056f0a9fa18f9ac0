#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that cannot start names the mistake and the remedy, and exits with a status that is not
# 0.
. "$(dirname "$0")/../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"
mkdir "$dir/images"

# Arguments: what the message must contain; then the keys.
says() # REGEX... -- KEY=VALUE...
{
	local wanted=()
	while [ "$1" != -- ]; do
		wanted+=("$1")
		shift
	done
	shift
	refuse_start -- "$@"
	for regex in "${wanted[@]}"; do
		expect_log "$regex"
	done
}

says '(file|dir)=' --
says 'file=.*dir=|dir=.*file=' -- file="$image" dir="$dir/images"
says 'there are two images, .*disk\.img and .*other\.img' 'dir=' -- "$image" "$dir/other.img"
says 'missing\.img' 'No such file or directory' -- "$dir/missing.img"
says 'images' 'directory' 'dir=' -- file="$dir/images"
says 'disk\.img' '[Nn]ot a directory' -- dir="$image"
says 'nowhere' 'No such file or directory' -- dir="$dir/nowhere"
says 'null' 'regular file|block device' -- /dev/null
says 'colour' -- "$image" colour=blue

says 'offset=.*2000000|2000000.*offset' '1048576' -- "$image" offset=2000000
says 'offset=12q' -- "$image" offset=12q
says 'offset=-1' -- "$image" offset=-1
says 'sizelimit=1\.5M' -- "$image" sizelimit=1.5M
says 'sizelimit=99999999999999999999' -- "$image" sizelimit=99999999999999999999
says 'sector-size=700' '512, 1024, 2048' '4096' -- "$image" sector-size=700
says 'sector-size=8192' '512, 1024, 2048' '4096' -- "$image" sector-size=8192
says 'direct-io=maybe' 'on' 'off' 'auto' -- "$image" direct-io=maybe
says 'engine=posix' 'io_uring' 'aio' 'threads' -- "$image" engine=posix
says 'poll=perhaps' 'on' 'off' 'auto' -- "$image" poll=perhaps
says 'discard=2' 'on' 'off' -- "$image" discard=2
says 'lock=none' 'exclusive' 'shared' 'off' -- "$image" lock=none
says 'contexts=many' -- "$image" contexts=many
says 'depth=0' -- "$image" depth=0
says 'ceph-lock is only for images in Ceph \(rbd:POOL/IMAGE\), not for .*disk\.img' -- "$image" ceph-lock=start
says 'cluster-timeout is only for images in Ceph .*, not for .*images' -- dir="$dir/images" cluster-timeout=5
says 'control' 'No such file or directory' -- "$image" control="$dir/nowhere/socket"

if [ "$(id -u)" = 0 ]; then
	require setpriv
	use_unprivileged_server
	chmod 600 "$image"
	server_prefix=("${as_nobody[@]}")
fi
chmod 000 "$image"
says 'disk\.img' 'Permission denied' -- "$image"
