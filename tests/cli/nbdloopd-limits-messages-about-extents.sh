#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a file system can't report where holes are, for a reason of its own, each request for extents
# fails, but the server logs only some of these failures, with the image's path.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 16M "$image"

cat >"$dir/no_holes.c" <<'EOF2'
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

off_t
lseek(int fd, off_t offset, int whence)
{
	if (whence == 3 || whence == 4) { /* SEEK_DATA, SEEK_HOLE */
		errno = EIO;
		return -1;
	}
	return (off_t)syscall(SYS_lseek, fd, offset, whence);
}

off_t
lseek64(int fd, off_t offset, int whence)
{
	return lseek(fd, offset, whence);
}
EOF2
"${CC:-cc}" -shared -fPIC -o "$dir/no_holes.so" "$dir/no_holes.c"
# The address sanitizer must be the first library.
server_prefix=(env LD_PRELOAD="$dir/no_holes.so" ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0")
start_nbdloopd "$image"
"$python" - "$lib" "$sock" <<'EOF2' >"$dir/client.log" 2>&1 || fail "it does not fail as it should"
import sys
sys.path.insert(0, sys.argv[1])
from raw_nbd import *

with Raw(sys.argv[2], STRUCTURED_FORM) as client:
    for _ in range(200):
        client.request(BLOCK_STATUS, 4096, 8192)
        assert client.reply() == (1, 5, b"")
EOF2
expect_log "error: $image: extents of 8192 bytes at offset 4096 failed: Input/output error"
lines=$(grep -c 'extents of' "$log")
[ "$lines" -le $((30 * time_factor)) ] || fail "the log has $lines lines about 200 requests"
stop_server
