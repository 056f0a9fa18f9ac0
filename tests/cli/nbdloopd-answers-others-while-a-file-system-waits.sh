#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An event loop never waits for a file system: while a call for one image takes long, for each kind
# of request in turn, the loop serves the clients of another image and closes the connection of a
# vanished client, and the slow request is answered in the end.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
cc=${CC:-cc}
# shellcheck disable=SC2086 # it may have arguments
$cc -D_GNU_SOURCE -shared -fPIC -o "$dir/slow_file.so" "$lib/slow_file.c"
gate=$dir/gate
mount_at "$dir/memory" -t tmpfs -o size=64m tmpfs
mkdir "$dir/disk"
head -c 4M /dev/urandom >"$dir/disk/fast.img"

# Arguments: the engines of both images, which decide whether the loop runs on a ring or on epoll;
# the directory of the slow image; the calls that must have waited.
transfers=yes
others_are_answered() # SLOW-ENGINE FAST-ENGINE DIRECTORY CALL...
{
	local slow_engine=$1 fast_engine=$2 image=$3/slow.img
	shift 3
	rm -f "$image"
	truncate -s 16M "$image"
	printf 'data' | dd of="$image" bs=1M seek=1 conv=notrunc status=none
	# The address sanitizer must be the first library.
	server_prefix=(env SLOW_GATE="$gate" SLOW_TRANSFERS="$transfers" LD_PRELOAD="$dir/slow_file.so"
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0")
	start_nbdloopd --threads=1 --direct-io=off --discard=on --control "$dir/control" --export slow="$image,engine=$slow_engine" \
		--export fast="$dir/disk/fast.img,engine=$fast_engine"
	timeout "$((60 * time_factor))" "$python" - "$sock" "$gate" "$time_factor" "$dir/disk/fast.img" "$image" "$dir/control" "$@" <<'EOF2' >"$dir/client.log" 2>&1 ||
import json, os, sys, time
import nbd
sock, gate, factor, fast_file, slow_file, control = sys.argv[1:7]
expected = set(sys.argv[7:])
from client import connect, send_all
from control import ask
LIMIT = 20 * int(factor)
KIB, MIB = 1 << 10, 1 << 20

def wait(what, true):
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "waited in vain: " + what
        fast.poll(0)
        slow.poll(5)

def status(h):
    return h.aio_block_status(8 * MIB, 0, lambda *args: 0)

def large_read(h):
    return h.aio_pread(nbd.Buffer(MIB), 6 * MIB)

# The log says where the file ends now.
def read_behind_end(h):
    os.truncate(slow_file, 15 * MIB)
    return h.aio_pread(nbd.Buffer(4096), 15 * MIB + 4096)

def completed(cookie):
    try:
        return slow.aio_command_completed(cookie)
    except nbd.Error as error:
        assert error.errno == "EIO", error
        return True

kinds = {
    "status": status,
    "large read": large_read,
    "another large read": large_read,
    "cache": lambda h: h.aio_cache(MIB, 0),
    "trim": lambda h: h.aio_trim(MIB, 9 * MIB),
    "zero": lambda h: h.aio_zero(MIB, 10 * MIB),
    "zero without holes": lambda h: h.aio_zero(MIB, 11 * MIB, flags=nbd.CMD_FLAG_NO_HOLE),
    "write": lambda h: h.aio_pwrite(nbd.Buffer.from_bytearray(b"w" * 4096), 12 * MIB),
    "FUA write": lambda h: h.aio_pwrite(nbd.Buffer.from_bytearray(b"f" * 4096), 13 * MIB, flags=nbd.CMD_FLAG_FUA),
    "read": lambda h: h.aio_pread(nbd.Buffer(4096), 1 * MIB),
    "flush": lambda h: h.aio_flush(),
    "read behind the end": read_behind_end,
}

with open(fast_file, "rb") as f:
    content = f.read()
fast, slow = (connect(sock, name, allocation=True) for name in ("fast", "slow"))
reached = gate + ".reached"
waited = set()
for name, begin in kinds.items():
    print(name, flush=True)
    open(gate, "w").close()
    cookie = begin(slow)
    wait("the call comes", lambda: os.path.exists(reached) or completed(cookie))
    if not os.path.exists(reached):
        # The kernel's own threads make these calls, or no call that could wait is made.
        os.unlink(gate)
        continue
    wait("the name of the call", lambda: os.path.getsize(reached) > 0)
    with open(reached) as f:
        waited.add(f.read())
    # A connection that closes in the meantime must not block the loop either.
    gone = connect(sock, "slow", allocation=True)
    begin(gone)
    send_all(gone)
    del gone
    for i in range(50):
        at = i * 64 * KIB
        buffer = nbd.Buffer(4096)
        c = fast.aio_pread(buffer, at)
        wait("the other image's client is answered", lambda: fast.aio_command_completed(c))
        assert buffer.to_bytearray() == content[at:at + 4096]
    connect(sock, "fast").shutdown()
    assert not completed(cookie), "it is done before it could be"
    os.unlink(gate)
    wait("the slow one's own answer", lambda: completed(cookie))
    # Otherwise the gate would see the call of the closed connection.
    wait("that connection ends", lambda: len(json.loads(ask(control, "status"))["connections"]) == 2)
    os.unlink(reached)
assert expected <= waited, waited
assert slow.pread(4096, 12 * MIB) == b"w" * 4096
assert slow.pread(4096, 13 * MIB) == b"f" * 4096
assert slow.pread(512, MIB)[:4] == b"data"
EOF2
		{
			rm -f "$gate"
			fail "slow image on $slow_engine in $image, the other one on $fast_engine: $(tail -n 1 "$dir/client.log")"
		}
	expect_log "read of 4096 bytes at offset 15732736 failed: .*: the file ends at byte 15728640"
	stop_server
}

others_are_answered io_uring io_uring "$dir/disk" lseek fstat posix_fadvise
others_are_answered aio aio "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
others_are_answered aio io_uring "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
others_are_answered threads threads "$dir/disk" lseek fstat posix_fadvise fallocate pread pwrite
# The loop itself copies data in memory.
transfers=no
others_are_answered auto aio "$dir/memory" lseek fstat posix_fadvise fallocate
