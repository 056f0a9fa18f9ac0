#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When small adjacent writes that were merged fail together, the server tries them again one after
# the other: under direct I/O they share blocks, and each of them reads its block, changes it, and
# writes it back.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 4M "$image"

cat >"$dir/client.py" <<'EOP'
import sys
from raw_nbd import *

BYTES, COUNT = 50, 40
client = Raw(sys.argv[1], SIMPLE)
wanted = b""
for n in range(COUNT):
    wanted += bytes([n + 1]) * BYTES
client.send(b"".join(request(SIMPLE, WRITE, n * BYTES, BYTES, 0, n) + wanted[n * BYTES:(n + 1) * BYTES] for n in range(COUNT)))
assert [client.reply()[1] for _ in range(COUNT)] == [0] * COUNT
client.request(READ, 0, len(wanted))
assert client.reply(len(wanted))[2] == wanted, "an acknowledged write is lost"
EOP

for _ in 1 2 3 4 5; do
	truncate -s 0 "$image"
	truncate -s 4M "$image"
	rm -f "$dir/calls"
	preload fail_write FAIL_WRITE_CALLS="$dir/calls" FAIL_WRITE_SECONDS=0
	start_nbdloopd --threads=1 --engine=threads --direct-io=on "$image"
	quietly "$python" "$dir/client.py" "$sock"
	expect_log ' failed: Input/output error'
	stop_server
done
