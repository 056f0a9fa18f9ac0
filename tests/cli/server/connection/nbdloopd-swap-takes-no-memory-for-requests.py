# SPDX-License-Identifier: BSD-3-Clause
"""Clients with requests of each kind and many sizes, alone and many at once.

    PROGRAM SOCKET PID STRACE-OUTPUT

None of them may make the server fault a page in, or call for memory or a thread.
"""
import subprocess
import sys

import nbd

from client import connect
from process import is_traced, page_faults, threads
from waiting import wait_until

socket, pid, calls = sys.argv[1:]
SIZES = (512, 4096, 3 << 12, 1 << 16, 1 << 17, 1 << 20, 5 << 20, 32 << 20)


def client(name):
    return connect(socket, name, allocation=True, unaligned=True)


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
    assert tracer.poll() is None
    return all(is_traced(pid, thread) for thread in threads(pid))


def takes_no_page(h):
    h.pread(512, 0)
    faults = page_faults(pid)
    for n in range(1000):
        one(h, n)
    more = page_faults(pid) - faults
    assert more == 0, f"{more} page faults"


clients = [client("disk")]
takes_no_page(clients[0])
takes_no_page(client("added"))

tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", calls, "-e", "trace=%memory,clone,clone3,exit", "-p", pid])
wait_until("strace has all threads", traced)
clients += [client("disk") for _ in range(99)]
for n in range(300):
    one(clients[n % len(clients)], n)
many(clients)
tracer.terminate()
tracer.wait()
with open(calls) as f:
    made = f.read()
assert not made, made
