# SPDX-License-Identifier: BSD-3-Clause
"""Clients that load a server and compare their data with a model; the seed decides what they do.

They may vanish in the middle of a request.
"""
import os
import selectors
import socket
import struct
import time

from model import NEVER
from raw_nbd import ACK, FLUSH, FUA, GO, READ, SIMPLE, TRIM, WRITE, WRITE_ZEROES, Raw, opening, request

FACTOR = float(os.environ.get("NBDLOOP_TIME_FACTOR", 1))
PATIENCE = 10 * FACTOR  # seconds that an answer may take
NAMES = {READ: "READ", WRITE: "WRITE", FLUSH: "FLUSH", TRIM: "TRIM", WRITE_ZEROES: "WRITE_ZEROES"}


class Request:
    def __init__(self, kind, run, start, write=None, fua=False):
        self.kind, self.run, self.start, self.write, self.fua = kind, run, start, write, fua
        self.length = 0


class Client:
    """A connection, and its requests in flight."""

    def __init__(self, path, number):
        # connect() waits for the server, and may fail with an error of the socket.
        raw = Raw.__new__(Raw)
        raw.form = SIMPLE
        raw.socket = socket.socket(socket.AF_UNIX)
        raw.socket.settimeout(PATIENCE)
        raw.socket.connect(path)
        self.socket = raw.socket
        try:
            handshake(raw)
        except BaseException:
            self.socket.close()
            raise
        self.socket.setblocking(False)
        self.number = number
        self.out, self.into = bytearray(), bytearray()
        self.waiting = {}
        self.cookie = 0


def handshake(raw):
    raw.greeting()
    raw.send(opening(SIMPLE))
    while True:
        number, kind, _ = raw.option_reply()
        if kind & 1 << 31:
            raise EOFError(f"option {number} was refused: {kind & 0xFFFF}")
        if (number, kind) == (GO, ACK):
            return


class Load:
    def __init__(self, path, model, random, clients=6, vanish=0.0, grace=0.2, alive=lambda: True):
        self.path, self.model, self.random = path, model, random
        self.vanish, self.grace, self.alive = vanish, grace, alive
        self.wanted = clients
        self.clients = []
        self.selector = selectors.DefaultSelector()
        self.findings = []
        self.errors = []  # texts of the server's refusals and errors
        self.sync_errors = 0
        self.lost_since = NEVER  # when a write-back failed: from then on nothing can be made durable
        self.requests = self.vanished = self.numbers = 0
        self.again = []  # runs to write again: when, and which run
        self.ending = []  # writes of lost clients: when such a write may no longer happen, and the write

    def connect(self):
        try:
            client = Client(self.path, self.numbers)
        except TimeoutError:
            self.findings.append("hang: a new connection has no answer")
            return False
        except (OSError, EOFError) as error:
            self.errors.append(f"connection refused: {error}")
            time.sleep(0.05)
            return False
        self.numbers += 1
        self.clients.append(client)
        self.selector.register(client.socket, selectors.EVENT_READ, client)
        return True

    # ---- sending

    def run(self):
        """A few adjacent slots; often the same ones."""
        slots = len(self.model.slots)
        first = self.random.randrange(min(24, slots)) if self.random.random() < 0.5 else self.random.randrange(slots)
        return first, min(slots, first + self.random.choice((1, 1, 1, 2, 3)))

    def queue(self, client, kind, run=None, flags=0):
        now = time.monotonic()
        offset, length = self.model.extent(run) if run else (0, 0)
        client.cookie += 1
        self.requests += 1
        waiting = Request(kind, run, now, fua=bool(flags & FUA))
        waiting.length = length
        payload = b""
        if kind in (WRITE, TRIM, WRITE_ZEROES):
            who = f"{NAMES[kind]} {offset}+{length} of connection {client.number}"
            waiting.write = self.model.begin(run, now, who, zeroes=kind != WRITE)
            if kind == WRITE:
                payload = waiting.write.data(offset, length)
        client.waiting[client.cookie] = waiting
        client.out += request(SIMPLE, kind, offset, length, flags, client.cookie) + payload

    def queue_some(self, client):
        chance = self.random.random()
        flags = FUA if self.random.random() < 0.15 else 0
        if chance < 0.35:
            # Adjacent requests, which the server may merge.
            first = self.random.randrange(max(1, min(24, len(self.model.slots) - 4)))
            for slot in range(first, min(len(self.model.slots), first + self.random.choice((2, 3, 4)))):
                self.queue(client, WRITE, (slot, slot + 1), flags)
        elif chance < 0.55:
            self.queue(client, WRITE, self.run(), flags)
        elif chance < 0.85:
            self.queue(client, READ, self.run())
        elif chance < 0.90:
            self.queue(client, FLUSH)
        elif chance < 0.95:
            self.queue(client, WRITE_ZEROES, self.run(), flags)
        else:
            self.queue(client, TRIM, self.run(), flags)
        self.push(client)

    def push(self, client):
        try:
            while client.out:
                del client.out[:client.socket.send(client.out)]
        except BlockingIOError:
            pass
        except OSError as error:
            self.lost(client, f"disconnected: {error}")
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.out else 0)
        if client in self.clients:
            self.selector.modify(client.socket, events, client)

    # ---- ends

    def remove(self, client, grace):
        if client not in self.clients:
            return
        self.clients.remove(client)
        self.selector.unregister(client.socket)
        client.socket.close()
        now = time.monotonic()
        for waiting in client.waiting.values():
            if waiting.write:
                self.ending.append((now + grace, waiting.write))
                # Other clients write the same run again later.
                self.again.append((now + self.random.uniform(0.05, 1.0), waiting.run))
        client.waiting.clear()

    def lost(self, client, why):
        if client in self.clients:
            self.errors.append(why)
            self.remove(client, self.grace)

    def leave(self, client):
        """The client vanishes, whatever it is doing."""
        self.vanished += any(waiting.write for waiting in client.waiting.values())
        self.remove(client, self.grace)

    # ---- replies

    def received(self, client):
        try:
            while True:
                data = client.socket.recv(1 << 20)
                if not data:
                    self.replies(client)
                    self.lost(client, "disconnected")
                    return
                client.into += data
        except BlockingIOError:
            pass
        except OSError as error:
            self.lost(client, f"disconnected: {error}")
            return
        self.replies(client)

    def replies(self, client):
        while len(client.into) >= 16:
            magic, error, cookie = struct.unpack(">IIQ", client.into[:16])
            waiting = client.waiting.get(cookie)
            if magic != 0x67446698 or not waiting:
                self.findings.append(f"wrong data: a reply with magic {magic:#x}, cookie {cookie}")
                self.lost(client, "a wrong reply")
                return
            length = waiting.length if waiting.kind == READ and not error else 0
            if len(client.into) < 16 + length:
                return
            data = bytes(client.into[16:16 + length])
            del client.into[:16 + length]
            del client.waiting[cookie]
            self.done(client, waiting, error, data)

    def done(self, client, waiting, error, data):
        now = time.monotonic()
        if error:
            self.errors.append(f"{NAMES[waiting.kind]}: {os.strerror(error)}")
            self.sync_errors += waiting.kind == FLUSH or waiting.fua
        elif (waiting.kind == FLUSH or waiting.fua) and waiting.start > self.lost_since:
            self.findings.append(f"wrong success: {NAMES[waiting.kind]} after a write-back had failed")
        if waiting.kind == READ and not error:
            wrong = self.model.compare(waiting.run, data, waiting.start)
            if wrong:
                self.findings.append(f"wrong data: connection {client.number} read at {waiting.start:.3f}: {wrong}")
        elif waiting.write:
            # A trim may leave the old data or zeroes, so it replaces nothing for certain.
            if error or waiting.kind == TRIM:
                waiting.write.end = now
            else:
                self.model.acknowledged(waiting.run, waiting.write, now)

    # ---- the whole

    def end_lost(self):
        now = time.monotonic()
        for entry in [entry for entry in self.ending if entry[0] <= now]:
            self.ending.remove(entry)
            entry[1].end = entry[0]

    def settle(self):
        now = time.monotonic()
        self.end_lost()
        oldest = min((w.start for client in self.clients for w in client.waiting.values()), default=now)
        self.model.forget(oldest)
        for client in list(self.clients):
            late = [w for w in client.waiting.values() if w.start < now - PATIENCE]
            if late:
                self.findings.append(f"hang: {NAMES[late[0].kind]} of connection {client.number} has had no answer for {PATIENCE:g} s")
                self.remove(client, NEVER_ENDS)

    def turn(self, busy):
        self.end_lost()
        for key, events in self.selector.select(0.02):
            if key.data not in self.clients:
                continue
            if events & selectors.EVENT_WRITE:
                self.push(key.data)
            if events & selectors.EVENT_READ and key.data in self.clients:
                self.received(key.data)
        if not busy:
            return
        now = time.monotonic()
        for entry in [entry for entry in self.again if entry[0] <= now]:
            self.again.remove(entry)
            if self.clients:
                client = self.random.choice(self.clients)
                self.queue(client, WRITE, entry[1], FUA if self.random.random() < 0.5 else 0)
                self.push(client)
        for client in list(self.clients):
            if len(client.waiting) < 8:
                self.queue_some(client)
        # The client vanishes in the middle of writes that were just sent, whole or in part.
        if self.clients and self.random.random() < self.vanish:
            client = self.random.choice(self.clients)
            self.queue_some(client)
            if client in self.clients:
                self.leave(client)

    def go(self, seconds, goes_on=lambda: False):
        end = time.monotonic() + seconds
        settled = 0
        while (time.monotonic() < end or goes_on()) and not self.findings and self.alive():
            if len(self.clients) < self.wanted:
                self.connect()
            self.turn(True)
            if time.monotonic() - settled > 0.1:
                self.settle()
                settled = time.monotonic()

    def drain(self):
        """Waits until all requests are answered."""
        while any(client.waiting for client in self.clients) and self.alive():
            self.turn(False)
            self.settle()
        time.sleep(max(0, self.grace if self.grace < 100 else 0))
        self.settle()

    def close(self):
        for client in list(self.clients):
            self.remove(client, self.grace)

    def probe(self, connections):
        """Checks that each worker answers. A late fault may still refuse a connection, but not each."""
        for _ in range(connections):
            for _ in range(5):
                if not self.alive() or self.connect():
                    break
            else:
                self.findings.append("hang: new connections are refused for good")
                return
        for client in list(self.clients):
            self.queue(client, READ, (0, 1))
            self.push(client)
        self.drain()

    def read_all(self):
        """Reads the whole image once more, some slots at a time."""
        for first in range(0, len(self.model.slots), 8):
            for _ in range(3):
                if not self.clients and not self.connect():
                    continue
                before = len(self.errors)
                self.queue(self.clients[0], READ, (first, min(first + 8, len(self.model.slots))))
                self.push(self.clients[0])
                self.drain_quickly()
                if len(self.errors) == before:
                    break

    def drain_quickly(self):
        while any(client.waiting for client in self.clients) and self.alive():
            self.turn(False)
            self.settle()


NEVER_ENDS = 1e9
