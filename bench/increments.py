# SPDX-License-Identifier: BSD-3-Clause
"""Backups of a large sparse image of which little has changed, beside copies of all of it by others."""

import json
import os
import random
import shutil
import socket
import subprocess
import time

import client
import image as image_module
import rounds as rounds_module
import server as server_module
import table

MIB = 1 << 20
GIB = 1 << 30
PLACE = 64 << 10
BLOCK = 4 << 10
DEPTH = 16

READ = "only reading what has changed"
RAW = "nbdloop backup --incremental"
DELTA = "nbdloop backup --incremental --format=delta"
NBDCOPY = "nbdcopy --flush, of all"
QEMU = "qemu-img convert, of all"
COPIES = (READ, RAW, DELTA, NBDCOPY, QEMU)


def status_of(control_path):
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(control_path)
        control.sendall(b"status\n")
        control.shutdown(socket.SHUT_WR)
        return json.load(control.makefile())


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise client.ClientError(f"{' '.join(command)}: {done.stderr.strip()}")


class SparseImage(image_module.Image):
    """A hole, with data at random places."""

    def __init__(self, directory, size, data):
        self.random = random.Random(size)
        self.full = set(self.random.sample(range(size // PLACE), data // PLACE))
        super().__init__(directory, size)

    def needs(self):
        return len(self.full) * PLACE

    def _fill(self):
        os.ftruncate(self.fd, self.size)
        block = os.urandom(PLACE)
        for place in sorted(self.full):
            os.pwrite(self.fd, place.to_bytes(8, "big") + block[8:], place * PLACE)
        os.fsync(self.fd)

    def choose(self, count):
        """Places for changes: half of them have data, the others are in the hole, and have data from now on."""
        old = self.random.sample(sorted(self.full), min(count // 2, len(self.full)))
        new = set()
        while len(old) + len(new) < count:
            place = self.random.randrange(self.size // PLACE)
            if place not in self.full:
                new.add(place)
        self.full |= new
        return sorted(new.union(old))

    def settle(self):
        """As that of any image; looking at all of its pages would take too long."""
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)


class Increments:
    def __init__(self, options, directory, tool):
        self.options = options
        self.directory = os.path.join(directory, "sparse")
        os.mkdir(self.directory)
        self.tool = tool
        self.image = SparseImage(self.directory, options.sparse_size * GIB, options.sparse_data * MIB)
        self.control = os.path.join(self.directory, "control.sock")
        self.targets = {RAW: self.path("raw.img"), DELTA: self.path("chain")}
        self.since = {}  # by copy: the checkpoint that its target belongs to
        self.moments = 0
        self.runs = {copy: [] for copy in COPIES}

    def path(self, name):
        return os.path.join(self.directory, name)

    def uri(self, export=""):
        return f"nbd+unix:///{export}?socket={self.running.socket}"

    def read_bytes(self):
        """By all exports, as the server counts."""
        return sum(one["counters"]["read_bytes"] for one in status_of(self.control)["exports"])

    # ---- fio, on places

    def fio(self, verb, places):
        """At the end of its list, fio doesn't wait for the requests in flight: so the last ones, which are small, repeat
        what was done."""
        order = self.path("order.log")
        with open(order, "w", encoding="ascii") as f:
            lines = [f"disk {verb} {place * PLACE} {PLACE}" for place in places]
            lines += [f"disk {verb} {places[-1] * PLACE} {BLOCK}"] * (2 * DEPTH)
            f.write("\n".join(["fio version 2 iolog", "disk add", "disk open", *lines, "disk close"]) + "\n")
        command = [
            "fio", "--name=bench", "--thread", "--output-format=json", f"--iodepth={DEPTH}",
            f"--size={self.image.size}", "--clat_percentiles=0", "--lat_percentiles=1",
            "--percentile_list=50:99:99.9", f"--read_iolog={order}", "--filename=disk", "--refill_buffers",
        ]
        return client.fio_run(command + client.target_nbd(self.uri()), 0)["seconds"]

    # ---- copies; each returns seconds, and the bytes that the server has read for it

    def read(self):
        before = self.read_bytes()
        return self.fio("read", self.places), self.read_bytes() - before

    def backup(self, copy, words):
        """With a snapshot of its own, so that the server's counters can be asked before that is gone."""
        self.moments += 1
        moment = f"moment{self.moments}"
        before = time.monotonic()
        run([self.tool, "snapshot", f"--checkpoint={moment}", self.control, "now"])
        counted = self.read_bytes()
        run([self.tool, "backup", *words(moment), self.uri("now"), self.targets[copy]])
        counted = self.read_bytes() - counted
        run([self.tool, "snapshot", "--remove", self.control, "now"])
        if copy in self.since:
            run([self.tool, "checkpoint", "delete", self.control, self.since[copy]])
        self.since[copy] = moment
        return time.monotonic() - before, counted

    def increment(self, copy):
        form = ["--format=delta"] if copy == DELTA else []
        return self.backup(copy, lambda moment: ["--incremental", f"--next-bitmap={moment}", *form])

    def full(self, copy):
        form = ["--format=delta"] if copy == DELTA else []
        return self.backup(copy, lambda moment: [f"--bitmap={moment}", *form])

    def other(self, command):
        target, before, began = self.path("other.img"), self.read_bytes(), time.monotonic()
        run([*command, self.uri(), target])
        seconds = time.monotonic() - began
        os.unlink(target)
        return seconds, self.read_bytes() - before

    def copy(self, name):
        if name == READ:
            return self.read()
        if name in (RAW, DELTA):
            return self.increment(name)
        return self.other(["nbdcopy", "--flush"] if name == NBDCOPY else
                          ["qemu-img", "convert", "-f", "raw", "-O", "raw", "-t", "writeback"])

    # ---- rounds

    def settle(self):
        self.image.settle()
        os.sync()

    def check(self):
        """Raises unless the last increments hold what was changed."""
        restored = self.path("restored.img")
        for copy in (RAW, DELTA):
            if copy == DELTA:
                run([self.tool, "restore", self.targets[copy], restored])
            with open(restored if copy == DELTA else self.targets[copy], "rb") as f:
                for place in self.places:
                    if os.pread(f.fileno(), PLACE, place * PLACE) != os.pread(self.image.fd, PLACE, place * PLACE):
                        raise client.ClientError(f"{copy}: its target is wrong at {place * PLACE}")
        os.unlink(restored)

    def run_round(self, round_):
        self.places = self.image.choose(self.options.changed * MIB // PLACE)
        self.fio("write", self.places)
        for name in rounds_module.turns(list(COPIES), round_):
            rounds_module.progress(f"increments, run {round_}/{self.options.increments}: {name}")
            self.settle()
            seconds, counted = self.copy(name)
            self.runs[name].append({"seconds": seconds, "read_mib": counted / MIB, "run": round_})

    def run_all(self):
        server = server_module.Server(
            f"nbdloopd:control={self.control}", {"nbdloopd": server_module.built_find("nbdloopd")}, []
        )
        self.running = server_module.Running(server, self.image, self.directory, None)
        try:
            for copy in (RAW, DELTA):
                rounds_module.progress(f"increments, the first backup: {copy}")
                self.full(copy)
            for round_ in range(1, self.options.increments + 1):
                self.run_round(round_)
            rounds_module.progress("")
            self.check()
            self.running.stop()
        finally:
            self.running.kill()
        shutil.rmtree(self.directory)

    def report(self):
        options = self.options
        print(f"\nA sparse image of {options.sparse_size} GiB with {options.sparse_data} MiB of data, of which "
              f"{options.changed} MiB in places of 64 KiB change before each of {options.increments} runs, half of "
              f"them in the hole; all times include the target's last sync.\n")
        print("\n".join(table.head(["copy", "seconds, median (min–max)", "to reading", "MiB that the server read"], 1)))
        for name in COPIES:
            own = self.runs[name]
            print(table.row([name, table.with_range(table.spread(own, "seconds")),
                             f"{table.ratio(own, self.runs[READ], 'seconds'):.2f}",
                             table.plain(table.spread(own, "read_mib"))]))
