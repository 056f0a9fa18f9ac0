#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When the file system that holds a sparse image is full, a write fails with ENOSPC, the log names
# that write, data written earlier stays as it was, and the export continues to work.
. "$(dirname "$0")/../lib/functions.sh"

require mke2fs
require_python_nbd
truncate -s 16M "$dir/disk"
quietly mke2fs -q -t ext4 "$dir/disk"
attach_loop "$dir/disk"
mount_at "$dir/small" -t ext4 "$loop_device"
image=$dir/small/disk.img

reports() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 64M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1" control="$dir/control"
	"$python" - "$uri" <<'EOF' >"$dir/client.log" 2>&1 || fail "the client saw something else"
import errno, sys
import nbd

h = nbd.NBD()
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
h.connect_uri(sys.argv[1])
piece = 300000
pattern = lambda i: bytes([i % 251 + 1]) * piece

written = 0
try:
    while (written + 1) * piece <= h.get_size():
        h.pwrite(pattern(written), written * piece)
        h.flush()
        written += 1
    sys.exit("64 MiB went into a file system of 16 MiB")
except nbd.Error as error:
    assert error.errno == "ENOSPC", error
assert written > 10, f"ENOSPC after {written} writes"
for i in range(written):
    assert h.pread(piece, i * piece) == pattern(i), f"piece {i} has changed"
# After a trim there is space again: a write elsewhere succeeds.
h.trim(8 * piece, 0)
h.pwrite(pattern(200), 40 << 20)
h.flush()
assert h.pread(piece, 40 << 20) == pattern(200)
h.shutdown()
EOF
	stop_server
	expect_log 'error: .*disk\.img: write of [0-9]+ bytes at offset [0-9]+ failed: No space left on device'
}

each_target reports on
each_target reports off
