#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A thousand idle connections take less than 100 KiB each, and all are served; after they have
# closed, and after a thousand more that were dropped at various stages, their descriptors and
# memory are free again.
. "$(dirname "$0")/../lib/functions.sh"

image=$dir/disk.img

thousand_are_served()
{
	rm -f "$image"
	truncate -s 10M "$image"
	start_nbdloopd --max-connections=1100 --threads=2 --engine="$engine" "$image"
	"$python" - "$sock" "$pid" <<'EOF2' >"$dir/client.log" 2>&1 || fail "a thousand connections are too many"
import os, resource, socket, struct, sys, time
path, pid = sys.argv[1:]
COUNT = 1000

def limit_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

def descriptors():
    return len(os.listdir(f"/proc/{pid}/fd"))

def sockets():
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
        except FileNotFoundError:
            pass # closed meanwhile
    return count

def resident():
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

# Sanitizers and valgrind use memory of their own, and keep freed memory.
with open(f"/proc/{pid}/maps") as f:
    maps = f.read()
    measured = not any(word in maps for word in ("libasan", "libclang_rt", "vgpreload"))

def expect_less(kib, limit, what):
    print(f"{kib} KiB {what}")
    assert kib < limit or not measured, f"{kib} KiB {what}"

def take(s, length):
    data = b""
    while len(data) < length:
        piece = s.recv(length - len(data))
        assert piece, "the server has closed the connection"
        data += piece
    return data

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(path)
    return s

# NBD_OPT_EXPORT_NAME, of the default export.
def negotiate(s):
    assert take(s, 18).startswith(b"NBDMAGICIHAVEOPT")
    s.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
    assert struct.unpack(">QH", take(s, 10))[0] == 10 << 20

def opened():
    s = connect()
    negotiate(s)
    return s

def request(kind, cookie, length):
    return struct.pack(">IHHQQI", 0x25609513, 0, kind, cookie, 0, length)

def read(s, cookie):
    s.sendall(request(0, cookie, 4096))
    assert take(s, 16) == struct.pack(">IIQ", 0x67446698, 0, cookie)
    assert take(s, 4096) == bytes(4096)

# The reads are small: buffers for data stay allocated, up to --memory.
def drop(n):
    s = connect()
    if n % 5 == 1:
        take(s, 18)
    elif n % 5 == 2:
        take(s, 18)
        s.sendall(struct.pack(">I8s", 3, b"IHAVEOPT"))
    elif n % 5 == 3:
        negotiate(s)
        s.sendall(request(1, n, 4096) + bytes(1000))
    elif n % 5 == 4:
        negotiate(s)
        s.sendall(request(0, n, 4096))
    s.close()

def wait_for(what, count, wanted):
    for _ in range(600):
        if count() == wanted:
            return
        time.sleep(0.1)
    sys.exit(f"{count()} {what}, not {wanted}")

def wait_for_descriptors(wanted):
    wait_for("descriptors", descriptors, wanted)

# Make the server allocate everything that it allocates once: contexts, buffers, and what the
# process needs.
def warm_up():
    some = [opened() for _ in range(8)]
    for s in some:
        for cookie in range(100):
            read(s, cookie)
    for n in range(100):
        drop(n)

limit_files()
listening = sockets()
warm_up()
# The warm-up's allocations stay, its connections don't.
wait_for("sockets", sockets, listening)
idle, before = descriptors(), resident()
clients = [opened() for _ in range(COUNT)]
wait_for_descriptors(idle + COUNT)
expect_less((resident() - before) / COUNT, 100, "for each")
for cookie, s in enumerate(clients):
    read(s, cookie)
expect_less((resident() - before) / COUNT, 100, "for each that has read")
del s
clients.clear()
wait_for_descriptors(idle)
expect_less(resident() - before, COUNT, "are left")

for n in range(COUNT):
    drop(n)
wait_for_descriptors(idle)
expect_less(resident() - before, 2 * COUNT, "are left by those that were dropped")
read(opened(), 1)
EOF2
	stop_server
}

each_engine thousand_are_served
