# SPDX-License-Identifier: BSD-3-Clause
"""A thousand idle clients, then a thousand that close at various stages.

    PROGRAM SOCKET PID

What the server's process takes for them is counted.
"""
import os
import resource
import struct
import sys

from process import resident
from raw_nbd import EXPORT_NAME, FIXED, READ, SIMPLE, WRITE, Raw, option, request
from waiting import wait_until

COUNT = 1000
path, pid = sys.argv[1:]


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
            pass  # closed meanwhile
    return count


# Sanitizers and valgrind use memory of their own, and keep freed memory.
with open(f"/proc/{pid}/maps") as f:
    maps = f.read()
    measured = not any(word in maps for word in ("libasan", "libclang_rt", "vgpreload"))


def expect_less(kib, limit, what):
    print(f"{kib} KiB {what}")
    assert kib < limit or not measured, f"{kib} KiB {what}"


def negotiate(client):
    """With NBD_OPT_EXPORT_NAME, for the default export.
"""
    client.greeting()
    client.send(FIXED + option(EXPORT_NAME))
    assert struct.unpack(">QH", client.receive(10))[0] == 10 << 20


def opened():
    client = Raw(path)
    client.form = SIMPLE
    negotiate(client)
    return client


def read(client, cookie):
    client.request(READ, 0, 4096, cookie=cookie)
    assert client.reply(4096) == (cookie, 0, bytes(4096))


# The reads are small: buffers for data stay allocated, up to --memory.
def drop(n):
    with Raw(path) as client:
        if n % 5 == 1:
            client.greeting()
        elif n % 5 == 2:
            client.greeting()
            client.send(FIXED + b"IHAVEOPT")
        elif n % 5 == 3:
            negotiate(client)
            client.send(request(SIMPLE, WRITE, 0, 4096) + bytes(1000))
        elif n % 5 == 4:
            negotiate(client)
            client.send(request(SIMPLE, READ, 0, 4096))


def wait_for(what, count, wanted):
    wait_until(f"there are {wanted} {what}", lambda: count() == wanted, 60, 0.1, seen=count)


def wait_for_descriptors(wanted):
    wait_for("descriptors", descriptors, wanted)


def warm_up():
    """Makes the server allocate everything that it allocates once: contexts, buffers, and what the process needs."""
    some = [opened() for _ in range(8)]
    for client in some:
        for cookie in range(100):
            read(client, cookie)
    for n in range(100):
        drop(n)
    for client in some:
        client.socket.close()


def serve_a_thousand():
    start = resident(pid)
    clients = [opened() for _ in range(COUNT)]
    wait_for_descriptors(idle + COUNT)
    expect_less((resident(pid) - start) / COUNT, 100, "for each")
    for cookie, client in enumerate(clients):
        read(client, cookie)
    expect_less((resident(pid) - start) / COUNT, 100, "for each that has read")
    for client in clients:
        client.socket.close()
    wait_for_descriptors(idle)


limit_files()
listening = sockets()
warm_up()
# The warm-up's allocations stay, its connections don't.
wait_for("sockets", sockets, listening)
idle, before = descriptors(), resident(pid)
serve_a_thousand()
# What the server keeps of each is small, and the next thousand take it.
expect_less((resident(pid) - before) / COUNT, 6, "for each, after their end")
# The allocator gives back more after one thousand than after another; what is lost is lost each
# time.
for _ in range(8):
    before = resident(pid)
    serve_a_thousand()
    grown = resident(pid) - before
    if grown < COUNT:
        break
expect_less(grown, COUNT, "more after each other thousand")

for n in range(COUNT):
    drop(n)
wait_for_descriptors(idle)
expect_less(resident(pid) - before, 2 * COUNT, "more after those that were dropped")
read(opened(), 1)
