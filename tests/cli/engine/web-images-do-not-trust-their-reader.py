# SPDX-License-Identifier: BSD-3-Clause
"""In the place of nbdloop-fetch: what a web server could make of it (engine/backing/http/fetch_wire.h)."""
import os
import random
import socket
import struct
import sys
import time

if os.fork():
    os._exit(0)
with open("@mode@") as f:
    mode = f.read().strip()
s = socket.socket(fileno=3)
READY, OPENED, DATA, ENDED, RESTARTED = range(5)


def answer(kind, slot=0, result=0, offset=0, data=b"", keeps=0):
    s.send(struct.pack("=IIiIQ", kind, slot, result & 0x7fffffff if result > 0 else result, keeps, offset) + data)


def order():
    message = s.recv(1 << 16)
    if not message:
        os._exit(0)
    kind, _, page, slot, length, _, offset = struct.unpack("=IIIIIIQ", message[:32])
    return kind, page, slot, length, offset


def wait():
    while s.recv(1 << 16):
        pass
    os._exit(0)


kind, page, slot, length, offset = order()
answer(READY, data=b"nothing\n\x1b[31m\xff")
if mode == "end":
    os._exit(0)
elif mode == "nothing":
    wait()
elif mode == "junk":
    for i in range(100):
        s.send(random.randbytes(random.randint(24, 1000)))
elif mode == "short":
    s.send(b"x")
elif mode == "unknown":
    answer(77)
elif mode == "no-slot":
    answer(ENDED, slot=0xffffffff)
elif mode == "idle-slot":
    answer(ENDED, slot=5)
elif mode == "large":
    answer(OPENED, slot, offset=(1 << 64) - 1)
elif mode == "negative":
    answer(OPENED, slot, offset=1 << 63)
elif mode == "long-text":
    answer(ENDED, slot, result=-5, data=b"%s%n" * 15000)
if not mode.startswith("r"):
    wait()

answer(OPENED, slot, offset=1 << 20, data=b"v" * 1000)
answer(ENDED, slot)
reads = 0
while True:
    kind, page, slot, length, offset = order()
    if kind != 1:
        continue
    # The first read is that of the image's first bytes.
    reads += 1
    if mode == "right" or reads == 1:
        answer(DATA, slot, offset=offset, data=b"x" * length)
        answer(ENDED, slot)
    elif mode == "read-other":
        answer(DATA, slot, offset=offset + 1, data=b"x" * 16)
    elif mode == "read-long":
        answer(DATA, slot, offset=offset, data=b"x" * (length + 1))
    elif mode == "read-less":
        answer(DATA, slot, offset=offset, data=b"x" * (length - 1))
        answer(ENDED, slot)
    elif mode == "read-again":
        answer(ENDED, slot, result=-5, keeps=1, data=b"why\0not")
        answer(ENDED, slot)
    elif mode == "read-idle":
        answer(DATA, slot + 1, offset=offset, data=b"x" * length)
    elif mode == "read-junk":
        s.send(random.randbytes(60000))
    elif mode == "read-end":
        os._exit(1)
    elif mode == "read-opened":
        answer(OPENED, slot, offset=1 << 30)
    elif mode == "read-endless":
        while True:
            answer(RESTARTED)
            time.sleep(0.001)
