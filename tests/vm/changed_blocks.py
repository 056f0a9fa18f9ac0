# SPDX-License-Identifier: BSD-3-Clause
"""What the checkpoints of an image tell after a power cut, at each moment at which the power could fail.

    changed_blocks.py write FACTS.json SOCKET CONTROL LOGGED
    changed_blocks.py check FACTS.json DIRECTORY LOG TARGET COW

`write` is a client of the nbdloopd at SOCKET. It begins two checkpoints, writes, zeroes and trims, and puts a mark into
the log of LOGGED, the dm-log-writes device under the image and its record, whenever something is durable.

`check` makes from the log what was on that disk at each mark and at flushes in between (power_loss.py), starts an
nbdloopd on the image there, and compares: a block that differs from a checkpoint's moment must be told as changed.
"""
import json
import os
import random
import subprocess
import sys
import time

import nbd

from client import connect
from power_loss import Log, Mapper, mount, unmount
from waiting import wait_until

MIB = 1 << 20
BLOCK = 4096
REGION = 16 * MIB           # of which a power cut may make all changed, if something in it has
WRITTEN = (0, 1, 3)         # regions
IMAGE = "disk.img"          # on the disk
ZEROES = bytes(BLOCK)


def content(generation):
    return generation.to_bytes(8, "little") * (BLOCK // 8)


def nbdloop(*words):
    subprocess.run(["nbdloop", *words], check=True, stdin=subprocess.DEVNULL)


class Writer:
    def __init__(self, sock, control, logged):
        self.disk, self.control, self.logged = connect(sock), control, logged
        self.mapper = Mapper()
        self.random = random.Random(18)
        self.blocks = {}        # number -> generation; absent: zeroes
        self.moments = {}       # of a checkpoint: self.blocks
        self.marks = 0

    def mark(self, text):
        self.marks += 1
        self.mapper.message(self.logged, f"mark {self.marks}:{text}")

    def checkpoint(self, name):
        self.moments[name] = dict(self.blocks)
        nbdloop("checkpoint", "create", self.control, name)
        self.mark(name)

    def change(self, generation, fua):
        """A write, a zero or a trim of a few blocks."""
        first = self.random.choice(WRITTEN) * REGION // BLOCK + self.random.randrange(REGION // BLOCK - 16)
        count = self.random.choice((1, 1, 2, 16))
        flags = nbd.CMD_FLAG_FUA if fua else 0
        kind = self.random.choice(("write", "write", "write", "zero", "trim"))
        if kind == "write":
            self.disk.pwrite(content(generation) * count, first * BLOCK, flags)
        elif kind == "zero":
            self.disk.zero(count * BLOCK, first * BLOCK, flags | nbd.CMD_FLAG_NO_HOLE)
        else:
            self.disk.trim(count * BLOCK, first * BLOCK, flags)
        for block in range(first, first + count):
            if kind == "write":
                self.blocks[block] = generation
            else:
                self.blocks.pop(block, None)

    def run(self):
        for generation in range(1, 61):
            if generation == 11:
                self.checkpoint("first")
            elif generation == 36:
                self.checkpoint("second")
            durable = generation % 3
            self.change(generation, durable == 1)
            if durable == 2:
                self.disk.flush()
            if durable:
                self.mark("changed")
            # The record is written now and then.
            if generation % 20 == 0:
                time.sleep(8)
        self.disk.shutdown()


def write(path, *places):
    writer = Writer(*places)
    writer.run()
    with open(path, "w") as f:
        json.dump(writer.moments, f)


class Checker:
    def __init__(self, facts, directory, log, target, cow):
        with open(facts) as f:
            self.moments = {name: {int(number): generation for number, generation in blocks.items()}
                            for name, blocks in json.load(f).items()}
        self.outer, self.target, self.cow = f"{directory}/outer", target, cow
        self.sock, self.control = f"{directory}/nbd.sock", f"{directory}/control"
        os.makedirs(self.outer)
        self.mapper, self.log = Mapper(), Log(log, target)
        self.sectors = os.lseek(self.log.target, 0, os.SEEK_END) // 512
        self.begun = []
        self.cuts = self.told = self.differing = 0

    def changed(self, name):
        """The numbers of the blocks that the checkpoint tells of."""
        disk, context = nbd.NBD(), f"qemu:dirty-bitmap:{name}"
        disk.add_meta_context(context)
        disk.connect_unix(self.sock)
        if not disk.can_meta_context(context):
            raise SystemExit(f"there is no {context} after a power cut")
        place, size, changed = 0, disk.get_size(), set()

        def add(_context, start, entries, _error):
            nonlocal place
            for length, flags in zip(entries[::2], entries[1::2]):
                if flags & 1:
                    changed.update(range(start // BLOCK, (start + length) // BLOCK))
                start += length
            place = start

        while place < size:
            disk.block_status(size - place, place, add)
        disk.shutdown()
        return changed

    def check_checkpoint(self, name, when):
        moment, changed = self.moments[name], self.changed(name)
        with open(f"{self.outer}/{IMAGE}", "rb") as f:
            for region in range(6):
                for block in range(region * REGION // BLOCK, (region + 1) * REGION // BLOCK):
                    f.seek(block * BLOCK)
                    then = content(moment[block]) if block in moment else ZEROES
                    if f.read(BLOCK) != then:
                        self.differing += 1
                        if block not in changed:
                            raise SystemExit(f"power cut {when}: block {block} has changed since {name}, "
                                             "of which nothing tells")
                if region not in WRITTEN and not changed.isdisjoint(
                        range(region * REGION // BLOCK, (region + 1) * REGION // BLOCK)):
                    raise SystemExit(f"power cut {when}: {name} tells of changes in region {region}, which had none")
        self.told += len(changed)

    def check_disk(self, when):
        for path in self.sock, self.control:
            if os.path.exists(path):
                os.unlink(path)
        server = subprocess.Popen(["nbdloopd", "-U", self.sock, "--control", self.control, f"{self.outer}/{IMAGE}"])
        try:
            wait_until("the server listens", lambda: os.path.exists(self.sock) or server.poll() is not None)
            if self.begun:
                nbdloop("checkpoint", "list", self.control)
            for name in self.begun:
                self.check_checkpoint(name, when)
        finally:
            server.terminate()
            server.wait()

    def cut(self, when):
        """What is mounted writes: to a snapshot, so that the log goes on where it was."""
        self.cuts += 1
        os.fsync(self.log.target)
        disk = self.mapper.create("cut", self.sectors, "snapshot", f"{self.target} {self.cow} N 8")
        mount(disk, self.outer, "ext4")
        try:
            self.check_disk(when)
        finally:
            unmount(self.outer)
            self.mapper.remove("cut")

    def run(self):
        flushes, last, started = 0, "the start", False
        while self.log.entries:
            flags, mark = self.log.replay_one()
            if mark is None:
                flushes += bool(flags & (Log.FLUSH | Log.FUA))
                if started and flags & (Log.FLUSH | Log.FUA) and flushes % 7 == 0:
                    self.cut(f"at flush or FUA write {flushes} after mark {last}")
                continue
            number, _, text = mark.partition(":")
            if not text:
                continue  # the device's own, at its end
            started, last = True, mark
            if text in self.moments:
                self.begun.append(text)
            if int(number) % 2 or text in self.moments:
                self.cut(f"at mark {mark}")
            flushes = 0
        self.cut("at the end")
        if self.begun != list(self.moments) or not self.differing:
            raise SystemExit(f"too little is in the log: {self.begun}, {self.differing} blocks")
        print(f"{self.cuts} power cuts; {self.differing} blocks differed, all of which were told ({self.told} blocks)")


def main():
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(*arguments)
    else:
        Checker(*arguments).run()


main()
