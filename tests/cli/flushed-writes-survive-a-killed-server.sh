#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every write that was acknowledged before the server is killed is in the file afterwards: the
# plugin holds no acknowledged write back.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img

# The client writes, records the expected contents, and stays connected.
cat >"$dir/client.py" <<'EOF'
import os, random, signal, sys
import nbd

h = nbd.NBD()
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
h.connect_uri(sys.argv[1])
wanted = bytearray(8 << 20)
choice = random.Random(7)
for i in range(200):
    length = choice.choice([1, 100, 512, 4096, 70000, 1 << 20])
    offset = choice.randrange(len(wanted) - length)
    data = choice.randbytes(length)
    h.pwrite(data, offset, nbd.CMD_FLAG_FUA if i % 3 == 0 else 0)
    wanted[offset:offset + length] = data
h.flush()
with open(sys.argv[2] + ".new", "wb") as f:
    f.write(wanted)
os.rename(sys.argv[2] + ".new", sys.argv[2])
signal.pause()
EOF

client_done()
{
	[ -e "$dir/wanted" ] || process_gone "${process_pids[client]}"
}

survives() # DIRECT-IO
{
	rm -f "$image"
	truncate -s 8M "$image"
	start_server -- "$image" engine="$engine" direct-io="$1"
	rm -f "$dir/wanted"
	spawn client "$python" "$dir/client.py" "$uri" "$dir/wanted"
	wait_until "the last write is acknowledged" client_done
	kill_server
	end_process client KILL
	quietly cmp "$image" "$dir/wanted"
}

each_engine survives on
each_engine survives off
