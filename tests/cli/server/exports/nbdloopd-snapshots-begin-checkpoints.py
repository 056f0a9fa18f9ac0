# SPDX-License-Identifier: BSD-3-Clause
"""Increments from snapshots that begin checkpoints, and a counter in two exports.

    PROGRAM SOCKET CONTROL
"""
import json
import multiprocessing
import random
import struct
import sys
import time

import nbd

from client import connect, take
from control import ask

SIZE = 24 << 20
COUNTER = SIZE - 4096  # where each export has it
TURNS = 5  # of each client, at most, between two moments: what is missed must not be written again soon
path, control = sys.argv[1:]
names = ("one", "two")
random.seed(18)


def request(line):
    answer = json.loads(ask(control, line))
    assert "error" not in answer, (line, answer)
    return answer


def refused(line, part):
    answer = json.loads(ask(control, line))
    assert part in answer.get("error", ""), (line, answer)


def checkpoints():
    return {e["name"]: [c["name"] for c in e["checkpoints"]] for e in json.loads(ask(control, "status"))["exports"]}


class Client(multiprocessing.Process):
    """A process of its own, since threads of Python wait for each other."""
    def __init__(self, seed):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.turns, self.allowed = (multiprocessing.Value("Q", 0, lock=False) for _ in range(2))

    def run(self):
        self.begin()
        while True:
            while self.turns.value >= self.allowed.value:
                time.sleep(0.0002)
            self.turn()
            self.turns.value += 1

    def wait(self, turns):
        """Until it has done so many."""
        while self.turns.value < turns:
            assert self.is_alive(), "a client has ended"
            time.sleep(0.0002)


class Counter(Client):
    """Writes a number to one export, then to the other, and then the next number."""
    def begin(self):
        self.handles = [connect(path, name) for name in names]

    def turn(self):
        for h in self.handles:
            h.pwrite(struct.pack("<Q", self.turns.value + 1) * 64, COUNTER)


class Changes(Client):
    """Changes bytes at random, with requests in flight that do not overlap."""
    def __init__(self, name, seed):
        super().__init__(seed)
        self.export = name

    def begin(self):
        self.handle = connect(path, self.export, unaligned=True)

    def change(self, slot):
        offset, length = slot * 32768 + self.random.randrange(12000), self.random.choice((1, 512, 4097, 20000))
        kind = self.random.randrange(4)
        if kind > 1:
            self.handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(self.random.randbytes(length))), offset)
        elif kind == 1:
            self.handle.aio_zero(length, offset)
        else:
            self.handle.aio_trim(length, offset)

    def turn(self):
        for slot in self.random.sample(range(COUNTER // 32768), 12):
            self.change(slot)
        take(self.handle)


def changed(h, context):
    """What the bitmap calls changed: a list of (start, end)."""
    at, found = 0, []
    while at < SIZE:
        def note(name, offset, entries, error):
            nonlocal at
            assert name == context, name
            for length, flags in zip(entries[::2], entries[1::2]):
                if flags:
                    found.append((offset, offset + length))
                offset += length
            at = offset
            return 0

        h.block_status(SIZE - at, at, note)
    return found


def open_snapshot(name, since):
    h = nbd.NBD()
    h.set_export_name(name)
    h.add_meta_context("qemu:dirty-bitmap:" + since)
    h.connect_unix(path)
    assert h.can_meta_context("qemu:dirty-bitmap:" + since), (name, since)
    return h


counter = Counter(0)
counter.allowed.value = 1 << 60
changes = [Changes(name, 7 * i + len(name)) for name in names for i in range(2)]
for client in (counter, *changes):
    client.start()
copies = {name: bytearray(SIZE) for name in names}
ahead = 0
for i in range(5):
    for client in changes:
        client.allowed.value += random.randrange(2, TURNS)
    for client in changes:
        client.wait(client.allowed.value - 1)
    answer = request(f"snapshot m checkpoint=c{i} all")
    assert [e["name"] for e in answer["exports"]] == ["one@m", "two@m"], answer
    counters = []
    for name in names:
        since, h = f"c{max(i - 1, 0)}", open_snapshot(f"{name}@m", f"c{max(i - 1, 0)}")
        parts = changed(h, "qemu:dirty-bitmap:" + since)
        now = h.pread(SIZE, 0)
        if i == 0:
            assert parts == [], "the checkpoint of this moment has a change before it"
            copies[name][:] = now
        assert i == 0 or parts, f"nothing has changed in {name} since {since}"
        for start, end in parts:
            copies[name][start:end] = now[start:end]
        assert copies[name] == now, f"the increment of {name} since {since} misses a change"
        counters.append(struct.unpack("<Q", now[COUNTER:COUNTER + 8])[0])
        # The clients go on, and this is still of that moment.
        changes[0].allowed.value += 1
        changes[0].wait(changes[0].allowed.value)
        assert changed(h, "qemu:dirty-bitmap:" + since) == parts, "the checkpoint of a snapshot has moved on"
        h.shutdown()
    assert counters[1] <= counters[0] <= counters[1] + 1, counters
    ahead += counters[0] > counters[1]
    request("remove export=one@m")
    request("remove export=two@m")
print(f"{ahead} of 5 moments were between the two writes of a number, {counter.turns.value}")
for client in (counter, *changes):
    client.kill()
    client.join()

# What fails leaves neither a snapshot nor a checkpoint.
before = checkpoints()
request("snapshot two@x export=one")
refused("snapshot x all checkpoint=new", "there is one of that name already")
refused("snapshot y all checkpoint=c3", "there is a checkpoint c3 already")
refused("snapshot y all checkpoint=a/b", "letters")
refused("snapshot y all scratch=/none checkpoint=new", "scratch=DIR")
assert checkpoints() == {**before, "two@x": before["one"]}, checkpoints()
# The checkpoints of a snapshot are no others' concern, and end with it.
refused("checkpoint create new export=two@x", "snapshot")
refused("checkpoint delete c0 export=two@x", "snapshot")
ask(control, "resize export=two@x")
request("checkpoint delete c0")
assert checkpoints()["two@x"] == before["one"] and "c0" not in checkpoints()["one"]
request("snapshot only checkpoint=of-one export=one")
assert "of-one" in checkpoints()["one"] and "of-one" not in checkpoints()["two"]
