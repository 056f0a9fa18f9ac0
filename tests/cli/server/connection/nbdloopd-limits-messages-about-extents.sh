#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a file system can't report where holes are, for a reason of its own, each request for extents
# fails, but the server logs only some of these failures, with the image's path.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 16M "$image"

preload no_holes
start_nbdloopd "$image"
"$python" - "$sock" <<'EOF2' >"$dir/client.log" 2>&1 || fail "it does not fail as it should"
import sys
from raw_nbd import *

with Raw(sys.argv[1], STRUCTURED_FORM) as client:
    for _ in range(200):
        client.request(BLOCK_STATUS, 4096, 8192)
        assert client.reply() == (1, 5, b"")
EOF2
expect_log "error: $image: extents of 8192 bytes at offset 4096 failed: Input/output error"
lines=$(grep -c 'extents of' "$log")
[ "$lines" -le $((30 * time_factor)) ] || fail "the log has $lines lines about 200 requests"
stop_server
