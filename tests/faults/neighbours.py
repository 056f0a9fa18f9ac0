# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of faults in which one client could make others wait.

It uses a slow file system, makes changes that take long, or holds memory.  Only nbdloopd promises that others do
not wait; nbdkit has a thread for each request.
"""
import json
import os
import socket
import threading
import time

import control
from kind import Kind
from load import FACTOR, PATIENCE
from model import IMAGE
from raw_nbd import (BLOCK_STATUS, CACHE, FLUSH, FUA, NO_HOLE, READ, SIMPLE, STRUCTURED_FORM, TRIM, WRITE,
                     WRITE_ZEROES, Raw, request)

KIB, MIB = 1 << 10, 1 << 20
SLOW_FROM = 8 * MIB  # as in shared.h


def connect(where, name=b"", form=SIMPLE):
    return Raw(where, form, name, PATIENCE)


def ask(target, question):
    return json.loads(control.ask(target.control, question, PATIENCE))


class Neighbours(Kind):
    """One client keeps the only loop busy; the load and a client of another image must be answered."""
    library = "slow"
    servers = ("nbdloopd",)
    harmless = True

    def prepare(self, target):
        target.option("--threads=1")
        target.option("--sandbox-path=" + target.directory)  # the image may be elsewhere
        self.target = target
        target.shared.watch(target.image)

    def begin(self, target):
        self.stopped, self.count = False, 0
        self.other = os.path.join(target.directory, "other.img")
        with open(self.other, "wb") as f:
            f.truncate(MIB)
        self.thread = threading.Thread(target=self.act)
        self.thread.start()

    def goes_on(self):
        return self.thread.is_alive()

    def end(self, target):
        self.stopped = True
        self.thread.join()

    def reached(self, target, load):
        return self.count

    def find(self, finding):
        self.target.findings.append(finding)

    def act(self):
        try:
            answer = ask(self.target, f"add other={self.other},engine={self.engine}")
            if "error" in answer:
                raise EOFError(answer["error"])
            with connect(self.target.socket, b"other") as neighbour:
                self.play(neighbour)
        except TimeoutError:
            self.find(f"hang: a client of another image has had no answer for {PATIENCE:g} s")
        except (OSError, EOFError, AssertionError, ValueError) as error:
            if self.target.alive():
                self.find(f"a client of another image: {error!r}")
        finally:
            self.target.shared.set(gate=0, pace=0)

    @staticmethod
    def look(neighbour):
        neighbour.request(READ, 0, 4 * KIB)
        assert neighbour.reply(4 * KIB) == (1, 0, bytes(4 * KIB))


class Slow(Neighbours):
    """Each call for the image's file waits until the client of the other image has its answer."""
    REQUESTS = {
        "status": (BLOCK_STATUS, 0, IMAGE),
        "large read": (READ, IMAGE, 512 * KIB),
        "cache": (CACHE, 0, MIB),
        "trim": (TRIM, IMAGE, 64 * KIB),
        "zero": (WRITE_ZEROES, IMAGE, 64 * KIB),
        "zero without holes": (WRITE_ZEROES, IMAGE, 64 * KIB, NO_HOLE),
        "FUA write": (WRITE, IMAGE, 4 * KIB, FUA),
        "read": (READ, IMAGE, 4 * KIB),
        "flush": (FLUSH,),
    }

    def play(self, neighbour):
        with connect(self.target.socket, form=STRUCTURED_FORM) as slow:
            names = list(self.REQUESTS)
            self.random.shuffle(names)
            for name in names:
                if not self.stopped:
                    self.what = name
                    self.one(neighbour, slow, self.REQUESTS[name])

    def one(self, neighbour, slow, what):
        shared = self.target.shared
        before = shared.count("calls that waited")
        shared.set(gate=1)
        slow.send(request(STRUCTURED_FORM, *what) + (bytes(what[2]) if what[0] == WRITE else b""))
        end = time.monotonic() + 0.3
        while shared.count("calls that waited") == before and time.monotonic() < end:
            time.sleep(0.002)
        self.look(neighbour)
        self.count += shared.count("calls that waited") - before
        shared.set(gate=0)
        # An error is an answer, too: not every image has data to cache.
        slow.reply()


class Long(Neighbours):
    """A change that takes long on a slow disk; then its client vanishes."""
    LENGTH = 2048 * MIB
    PACE = 100  # MiB per second
    size = SLOW_FROM + LENGTH
    engines = ("aio", "threads")  # with io_uring, the kernel makes calls that slow.c can't see

    def prepare(self, target):
        super().prepare(target)
        target.option("--direct-io=off")
        target.shared.set(pace=self.PACE)

    def written(self):
        return self.target.shared.count("slow writes")

    def play(self, neighbour):
        client = connect(self.target.socket)
        client.request(WRITE_ZEROES, SLOW_FROM, self.LENGTH, NO_HOLE)
        end = time.monotonic() + PATIENCE
        while self.written() == 0:
            assert time.monotonic() < end, "nothing is written"
            time.sleep(0.002)
        for _ in range(5):
            self.look(neighbour)
        connect(self.target.socket, b"other").socket.close()
        self.count = self.written()
        client.socket.close()
        # The chunk in flight may end.
        time.sleep(1.5 * FACTOR)
        before = self.written()
        time.sleep(1)
        if self.written() != before:
            self.find("a change goes on though its client is gone")


class Memory(Long):
    """The same for an image in memory, which the event loop writes itself."""
    place = "/dev/shm"
    engines = ("io_uring", "aio", "threads")  # of the neighbour

    def prepare(self, target):
        super().prepare(target)
        target.option("--engine=auto")
        target.option("--direct-io=auto")


class Trickle(Neighbours):
    """Clients that hold all memory: they send a byte of their data now and then, or take no replies."""
    library = None
    clients = 0
    size = IMAGE + 40 * MIB
    LIMIT = 2  # seconds

    def prepare(self, target):
        super().prepare(target)
        target.option("--memory=128M")
        target.option(f"--stuck-limit={self.LIMIT}")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        target.option(f"--port={self.port}")
        target.option("--address=127.0.0.1")

    def ended(self):
        with open(self.target.log, errors="replace") as f:
            return sum("disconnected" in line for line in f)

    def trickle(self, clients, pieces):
        """Waits until the clients are disconnected, or the read is answered."""
        clients = list(clients)
        while clients and not self.over.wait(0.1):
            for client in list(clients):
                try:
                    client.send(pieces[0])
                except OSError:
                    clients.remove(client)
            pieces.append(pieces.pop(0))

    def play(self, neighbour):
        for writes in self.random.sample((True, False), 2):
            where = self.random.choice((self.target.socket, self.port))
            self.what = f"{'data' if writes else 'replies'}, over {'TCP' if where == self.port else 'a unix socket'}"
            self.over = threading.Event()
            clients = [connect(where) for _ in range(4)]
            try:
                self.keep(neighbour, clients, writes)
            finally:
                self.over.set()
                for client in clients:
                    client.socket.close()

    def keep(self, neighbour, clients, writes):
        for client in clients:
            client.request(WRITE if writes else READ, IMAGE, 32 * MIB)
            if writes:
                client.send(bytes(4 * KIB))
        end = time.monotonic() + PATIENCE
        while sum(c["requests"] for c in ask(self.target, "status")["connections"]) < len(clients):
            assert time.monotonic() < end, "not all requests are taken"
            time.sleep(0.01)
        # The writer sends more data; the client that takes no replies sends more requests.
        pieces = [b"\0"] if writes else [bytes([byte]) for byte in request(SIMPLE, FLUSH)]
        thread = threading.Thread(target=self.trickle, args=(clients, pieces))
        thread.start()
        try:
            self.honest(neighbour, len(clients))
        finally:
            self.over.set()
            thread.join()

    def honest(self, neighbour, clients):
        before = self.ended()
        with connect(self.target.socket) as honest:
            length = 5 * MIB // 4
            honest.send(request(SIMPLE, WRITE, IMAGE, length) + bytes(length))
            assert honest.reply() == (1, 0, b"")
            if self.ended() != before:
                self.find("the largest request of the kernel's client had to wait for others")
            honest.request(READ, IMAGE, 8 * MIB)
            assert honest.reply(8 * MIB)[:2] == (1, 0)
        self.look(neighbour)
        self.count += clients
