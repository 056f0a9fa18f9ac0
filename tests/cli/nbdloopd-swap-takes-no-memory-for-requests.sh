#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd --swap allocates all the memory that requests need before the first request arrives, also
# for an export that is added while the server runs: after that, no request makes a system call for
# memory or a thread, nor touches a page that isn't resident; a user who lacks the capability is
# refused. (PR_SET_IO_FLUSHER and the out-of-memory killer's score need CAP_SYS_RESOURCE; here
# strace makes these calls seem to work.)
. "$(dirname "$0")/../lib/functions.sh"

require_root "locked memory"
require_python_nbd
require strace setpriv
image=$dir/disk.img
truncate -s 64M "$image" "$dir/added.img"

server_prefix=(setpriv --bounding-set -sys_resource --inh-caps -sys_resource)
refuse_nbdloopd 1 --swap "$image"
expect_log "swap: PR_SET_IO_FLUSHER: .*CAP_SYS_RESOURCE"

! grep -qE '^S\["SANITIZER_CFLAGS"\]="[^"]' "$top_builddir/config.status" || skip "sanitizers take memory of their own"

tracer_of_start()
{
	sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$pid/status"
}

not_traced()
{
	[ "$(tracer_of_start)" = 0 ]
}

requests_take_no_memory()
{
	# Among the main thread's calls, the first prctl() and the first write() need the
	# capability.
	server_prefix=(strace -D -qq -o "$dir/start" -e trace=prctl,write -e inject=prctl:retval=0:when=1
		-e inject=write:retval=5:when=1)
	start_nbdloopd --swap --threads=2 --memory=64M --control="$dir/control.sock" --export="disk=$image,engine=$engine"
	grep -q "PR_SET_IO_FLUSHER.*INJECTED" "$dir/start" || fail "the first prctl() was another one"
	grep -q '"-1000".*INJECTED' "$dir/start" || fail "the first write() was another one"
	kill -KILL "$(tracer_of_start)"
	wait_until "the end of strace" not_traced
	expect_log "swap=on: memory locked"
	control "$dir/control.sock" "add added=$dir/added.img,engine=$engine" >"$dir/answer" || fail "add: $(cat "$dir/answer")"
	"$python" - "$sock" "$pid" "$dir/calls" <<'EOF2' >"$dir/client.log" 2>&1 || fail "requests take memory"
import os, subprocess, sys, time
import nbd
from client import connect
socket, pid, calls = sys.argv[1:]
SIZES = (512, 4096, 3 << 12, 1 << 16, 1 << 17, 1 << 20, 5 << 20, 32 << 20)

def client(name):
    return connect(socket, name, allocation=True, unaligned=True)

def page_faults():
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[7])

def one(h, n):
    size = SIZES[n // 8 % len(SIZES)]
    offset = n * 4096 % (16 << 20)
    if n % 8 == 0:
        h.pread(size, offset)
    elif n % 8 == 1:
        h.pwrite(bytes([n % 256]) * size, offset)
    elif n % 8 == 2:
        h.pwrite(b"x" * (size - 11), offset + 7, nbd.CMD_FLAG_FUA)
    elif n % 8 == 3:
        h.flush()
    elif n % 8 == 4:
        h.trim(size, offset)
    elif n % 8 == 5:
        h.zero(size, offset)
    elif n % 8 == 6:
        h.block_status(32 << 20, 0, lambda *extents: 0)
    else:
        h.pread(size - 11, offset + 7)

def many(clients):
    for size, count in (512, 256), (4096, 64), (1 << 16, 16):
        buffers = [nbd.Buffer(size) for _ in range(count)]
        for h in clients:
            for n, buffer in enumerate(buffers):
                h.aio_pread(buffer, n << 17)
        for h in clients:
            while h.aio_in_flight():
                h.poll(-1)

def traced():
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as f:
            if "TracerPid:\t0\n" in f.read():
                return False
    return True

def takes_no_page(h):
    h.pread(512, 0)
    faults = page_faults()
    for n in range(1000):
        one(h, n)
    assert page_faults() == faults, f"{page_faults() - faults} page faults"

clients = [client("disk")]
takes_no_page(clients[0])
takes_no_page(client("added"))

tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", calls, "-e", "trace=%memory,clone,clone3,exit", "-p", pid])
while not traced():
    assert tracer.poll() is None
    time.sleep(0.1)
clients += [client("disk") for _ in range(99)]
for n in range(300):
    one(clients[n % len(clients)], n)
many(clients)
tracer.terminate()
tracer.wait()
with open(calls) as f:
    made = f.read()
assert not made, made
EOF2
	stop_server
}

each_engine requests_take_no_memory
