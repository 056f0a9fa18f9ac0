# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots that are taken while clients write: each is one moment, and stays as it was.

    snapshot_moments.py SOCKET CONTROL PID reflink|copy|ceph

Each client writes numbers from 1 on, one after the other, to its places in turn. So a snapshot has
to show the places as they were after one of the writes: the last one that was acknowledged before
the snapshot was asked for, one that was submitted before its answer, or one between them. Direct I/O
is switched meanwhile, where it is possible.
"""
import hashlib
import json
import struct
import subprocess
import sys
import threading

import nbd

from client import connect
from control import Control
from process import unnamed_files
from waiting import TIMEOUT, wait_until

CLIENTS = 4
PLACES = 150  # of a client
LENGTH = 1000  # bytes of a place: neighbours of different clients share blocks and granules
SNAPSHOTS = 5
HOLE = 8 << 20  # the image has holes from here on

socket, control_socket, pid, method = sys.argv[1:]
control = Control(control_socket)
stop = threading.Event()


class Writer(threading.Thread):
    def __init__(self, number):
        super().__init__(daemon=True)
        self.number, self.submitted, self.acknowledged, self.error = number, 0, 0, None
        self.handle = connect(socket, "disk", unaligned=True)

    def offset(self, place):
        # Half of the places are far away from each other, in holes.
        if place % 2:
            return HOLE + (place * CLIENTS + self.number) * 20000
        return (place * CLIENTS + self.number) * LENGTH

    def run(self):
        try:
            while not stop.is_set():
                self.submitted += 1
                place = self.submitted % PLACES
                self.handle.pwrite(struct.pack("<Q", self.submitted) * (LENGTH // 8), self.offset(place))
                self.acknowledged += 1
            self.handle.flush()
        except nbd.Error as error:
            self.error = error

    def check(self, data, least, most):
        """Whether the bytes are those after one write, whose number is in these limits."""
        seen = {}
        for place in range(PLACES):
            bytes_there = bytes(data[self.offset(place):][:LENGTH])
            (seen[place],) = struct.unpack("<Q", bytes_there[:8])
            assert bytes_there == bytes_there[:8] * (LENGTH // 8), f"place {place} of {self.number} is torn"
        last = max(seen.values())
        assert least <= last <= most, f"client {self.number}: write {last} is the last, not {least} to {most}"
        for place, number in seen.items():
            wanted = last - (last - place) % PLACES
            assert number == max(wanted, 0), f"client {self.number}: place {place} has {number}, not {wanted}, after {last}"


def read_all(name):
    h = connect(socket, name)
    assert h.is_read_only()
    # In an order that meets writers everywhere.
    step, data = 1 << 20, bytearray(h.get_size())
    for offset in sorted(range(0, len(data), step), key=lambda offset: offset * 7 % 64):
        length = min(step, len(data) - offset)
        data[offset:offset + length] = h.pread(length, offset)
    h.shutdown()
    return memoryview(data)


def ceph_snapshots():
    found = json.loads(subprocess.check_output(["rbd", "snap", "ls", "--format", "json", "rbd/disk"]))
    return [snapshot["name"] for snapshot in found if snapshot["name"].startswith("nbdloop.moment")]


def digest(name):
    return hashlib.sha256(read_all(name)).hexdigest()


writers = [Writer(number) for number in range(CLIENTS)]
for writer in writers:
    writer.start()
wait_until(
    "all places are written",
    lambda: all(w.acknowledged > PLACES or w.error for w in writers),
    3 * TIMEOUT,  # a slow disk may do four operations for each
)

digests = {}
for i in range(SNAPSHOTS):
    if i % 2 and control.export()["direct_io_align"]:
        control.ask(f"set direct-io={'off' if i % 4 == 1 else 'on'} export=disk")
    name = f"moment{i}"
    before = [writer.acknowledged for writer in writers]
    answer = control.ask(f"snapshot {name} export=disk")
    after = [writer.submitted for writer in writers]
    assert answer["name"] == name and answer["read_only"] and answer["size"] == control.export()["size"], answer
    assert answer["snapshot"]["of"] == "disk" and answer["snapshot"]["method"] == method, answer
    data = read_all(name)
    for writer, least, most in zip(writers, before, after):
        writer.check(data, least, most)
    digests[name] = hashlib.sha256(data).hexdigest()
    wanted = [writer.acknowledged + PLACES for writer in writers]
    wait_until("the clients write on", lambda: all(w.acknowledged >= n or w.error for w, n in zip(writers, wanted)))

assert len(set(digests.values())) == SNAPSHOTS, digests
for name, wanted in digests.items():
    assert digest(name) == wanted, f"{name} has changed"
stop.set()
for writer in writers:
    writer.join()
    assert writer.error is None, writer.error
for name, wanted in digests.items():
    assert digest(name) == wanted, f"{name} has changed"
held = ceph_snapshots if method == "ceph" else lambda: unnamed_files(pid)
assert len(held()) == SNAPSHOTS, held()
control.ask("remove export=moment2")
wait_until("a removed snapshot gives its space back", lambda: len(held()) == SNAPSHOTS - 1, seen=held)
assert digest("moment1") == digests["moment1"] and digest("moment3") == digests["moment3"]
