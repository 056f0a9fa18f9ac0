#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With --poll-max-us, a thread whose client sends one request after the other finds most events
# without sleeping, and sleeps when the client is idle. Without the option, the thread sleeps for
# each event.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 1M "$image"

# The time is longer than a loaded machine needs between two requests.
polls()
{
	start_nbdloopd --engine="$engine" --threads=1 --control "$dir/control" "$@" "$image"
	"$python" - "$uri" "$dir/control" "$pid" "$*" <<'EOF2' >"$dir/client.log" 2>&1 || fail "wrong with engine $engine $*"
import json, socket, sys, time
import nbd
uri, control, pid, options = sys.argv[1:]
READS = 1000

def loop():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(control)
        s.sendall(b"status\n")
        status = json.loads(s.makefile().readline())
        assert status["poll_max_us"] == (100000 if options else 0)
        (one,) = status["loops"]
        return one

def ticks():
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

h = nbd.NBD()
h.connect_uri(uri)
before = loop()
for _ in range(READS):
    h.pread(512, 0)
after = loop()
slept, found = after["sleeps"] - before["sleeps"], after["polls"] - before["polls"]
if options:
    assert found >= READS and slept < READS // 10, (before, after)
else:
    assert found == 0 and slept >= READS, (before, after)
    assert after["poll_us"] == 0

time.sleep(1)
begin = ticks()
time.sleep(2)
assert ticks() - begin < 20, "it is busy while nothing comes"
# The next status shows that this event came late.
loop()
time.sleep(0.5)
assert loop()["poll_us"] == 0
EOF2
	stop_server
}

both()
{
	polls
	reject_log 'polls up to'
	polls --poll-max-us=100000
	expect_log 'each of 1 threads polls up to 100000 us'
}

each_engine both
