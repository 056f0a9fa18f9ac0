# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of an image in Ceph while clients change it: increments that are put together are the image.

    ceph-images-have-checkpoints.py SOCKET CONTROL

A snapshot and a checkpoint are one moment, again and again. The bytes of the snapshot before, with
what the bitmap of its checkpoint tells as changed, must be those of the next snapshot, and at last
those of the image.
"""
import random
import sys
import threading

import nbd

from client import connect
from control import Control
from waiting import wait_until

CLIENTS = 3
MOMENTS = 4
BLOCK = 512

socket, control_socket = sys.argv[1:]
control = Control(control_socket)
stop = threading.Event()


class Changer(threading.Thread):
    """Changes what it likes, mostly in one part of the image at a time."""

    def __init__(self, number):
        super().__init__(daemon=True)
        self.random = random.Random(number)
        self.changes, self.error = 0, None
        self.handle = connect(socket, "disk", unaligned=True)
        self.size = self.handle.get_size()

    def change(self):
        length = self.random.choice([BLOCK, 5000, 1 << 16, 1 << 20])
        offset = self.random.randrange(self.size - length) // BLOCK * BLOCK
        what = self.random.randrange(6)
        if what == 0:
            self.handle.zero(length // BLOCK * BLOCK, offset)
        elif what == 1:
            self.handle.trim(length // BLOCK * BLOCK, offset)
        else:
            self.handle.pwrite(self.random.randbytes(length), offset)
        self.changes += 1

    def run(self):
        try:
            while not stop.is_set():
                self.change()
                # Else all of the image changes between two moments.
                stop.wait(0.2)
        except nbd.Error as error:
            self.error = error


def read_all(name):
    h = connect(socket, name)
    step = 1 << 20
    data = bytearray().join(h.pread(step, offset) for offset in range(0, h.get_size(), step))
    h.shutdown()
    return data


def changed_since(export, checkpoint):
    """The runs that have changed, which the server may tell in several replies."""
    context = f"qemu:dirty-bitmap:{checkpoint}"
    h = nbd.NBD()
    h.set_export_name(export)
    h.add_meta_context(context)
    h.connect_unix(socket)
    assert h.can_meta_context(context), (export, checkpoint)
    at, size, runs = 0, h.get_size(), []

    def extents(_, offset, entries, __):
        nonlocal at
        assert offset == at
        for length, flags in zip(entries[::2], entries[1::2]):
            assert length % BLOCK == 0 and flags in (0, 1)
            if flags:
                runs.append((at, length))
            at += length
        return 0

    while at < size:
        h.block_status(min(size - at, 24 << 20), at, extents)
    h.shutdown()
    assert at == size
    return runs


def assert_increment(old, export, checkpoint, new):
    changed = changed_since(export, checkpoint)
    for offset, length in changed:
        old[offset:offset + length] = new[offset:offset + length]
    wrong = [offset for offset in range(0, len(new), BLOCK) if old[offset:offset + BLOCK] != new[offset:offset + BLOCK]]
    assert not wrong, f"{checkpoint}: {len(wrong)} blocks of {export} have changed, and were not told; the first at {wrong[0]}"
    return sum(length for _, length in changed)


changers = [Changer(number) for number in range(CLIENTS)]
control.ask("checkpoint create first export=disk")
for changer in changers:
    changer.change()
    changer.start()
before, told = {"first": bytearray(changers[0].size)}, []
for i in range(MOMENTS):
    name = f"moment{i}"
    control.ask(f"snapshot {name} checkpoint={name} export=disk")
    now = read_all(name)
    for since, old in before.items():
        told.append(assert_increment(bytearray(old), name, since, now))
    # Its own bitmap is there, too, and empty.
    assert changed_since(name, name) == []
    before[name] = now
    control.ask(f"remove export={name}")
    wanted = [changer.changes + 3 for changer in changers]
    wait_until("the clients go on", lambda: all(c.changes >= n or c.error for c, n in zip(changers, wanted)))
stop.set()
for changer in changers:
    changer.join()
    assert changer.error is None, changer.error
now = read_all("disk")
for since, old in before.items():
    told.append(assert_increment(bytearray(old), "disk", since, now))
assert min(told) < changers[0].size // 2, f"too much is told: {told}"
print(f"changed: {told}")
