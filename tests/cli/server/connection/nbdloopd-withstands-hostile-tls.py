# SPDX-License-Identifier: BSD-3-Clause
"""Does to nbdloopd's TLS what no client should.

    PROGRAM SOCKET CERTIFICATES PID SIZE MEMORY

An honest client beside it must not notice.  Records that are cut, merged, changed, repeated or made up end their own
connection at the most, and no request is carried out whose last record was not the client's.  In the end the server has
as many descriptors as before, and has kept no more than the MEMORY (bytes) that it may use for requests.
"""
import os
import random
import socket
import ssl
import sys
import time

import nbd

from neighbour import Belongings, Neighbour
from raw_nbd import *

path, pki = sys.argv[1:3]
pid, size, memory_limit = map(int, sys.argv[3:])
half = size // 2
MIB = 1 << 20
HANDSHAKE_LIMIT = 6  # seconds, which the server was told
VERSIONS = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2


def honest():
    handle = nbd.NBD()
    handle.set_uri_allow_local_file(True)
    handle.connect_uri(f"nbds+unix://localhost/?socket={path}&tls-certificates={pki}")
    return handle


def context(version):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = made.maximum_version = version
    return made


CONTEXTS = {version: context(version) for version in VERSIONS}


class Client(Raw):
    """A client of OpenSSL's.  What it says is in `records` until it is delivered."""

    def __init__(self, version=VERSIONS[0]):
        super().__init__(path)
        self.form = STRUCTURED_FORM
        self.greeting()
        Raw.send(self, FIXED + option(STARTTLS))
        assert self.option_reply() == (STARTTLS, ACK, b"")
        self.heard, self.said = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = CONTEXTS[version].wrap_bio(self.heard, self.said)
        self.clear = False
        self.records = []
        self.shake()

    # option_reply() and reply() receive data of the session, once there is one.
    def receive(self, length):
        if not hasattr(self, "tls"):
            return super().receive(length)
        data = b""
        while len(data) < length:
            try:
                data += self.tls.read(length - len(data))
            except ssl.SSLWantReadError:
                self.hear()
        return data

    def hear(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("disconnected")
        self.heard.write(data)

    def note(self):
        """Splits what was said into records."""
        data = self.said.read()
        while data:
            length = 5 + int.from_bytes(data[3:5], "big")
            self.records.append(data[:length])
            data = data[length:]

    def shake(self):
        """A step of the handshake; true: it is over."""
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self.note()

    def say(self, data):
        for at in range(0, len(data), 16384):
            self.tls.write(data[at:at + 16384])
        self.note()

    def say_bytes(self, data):
        """A record for each byte."""
        for byte in data:
            self.tls.write(bytes([byte]))
        self.note()

    def deliver(self, send=None):
        data = b"".join(self.records)
        self.records = []
        (send or self.socket.sendall)(data)

    def begin(self, send=None):
        """The handshakes of TLS and of NBD."""
        while True:
            over = self.shake()
            self.deliver(send)
            if over:
                break
            self.hear()
        self.say(opening(self.form)[len(FIXED):])
        self.deliver(send)
        while self.option_reply()[:2] != (GO, ACK):
            pass

    def ends(self):
        """The server disconnects, soon: it can't wait for anything that may still come."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.until_end()
        self.socket.close()


def connected(version):
    client = Client(version)
    client.begin()
    return client


def check_data(client, offset, length, send=None, say=None):
    data = random.randbytes(length)
    (say or client.say)(request(client.form, WRITE, offset, length, cookie=1) + data)
    client.deliver(send)
    assert client.reply() == (1, 0, b"")
    client.say(request(client.form, READ, offset, length, cookie=2))
    client.deliver(send)
    assert client.reply() == (2, 0, data)


# ---- odd, but right

def bytes_may_come_one_by_one(version):
    client = Client(version)

    def send(data):
        for byte in data:
            client.socket.sendall(bytes([byte]))

    client.begin(send)
    check_data(client, half, 100, send)
    client.ends()


def records_may_be_of_any_size(version):
    client = connected(version)
    check_data(client, half + 1, 700, say=client.say_bytes)
    check_data(client, half, MIB)
    client.say(bytes(0))
    check_data(client, half, 16384)
    client.ends()


def hello_may_come_in_many_records(version):
    client = Client(version)
    hello = client.records.pop()
    for at in range(5, len(hello), 10):
        piece = hello[at:at + 10]
        client.records.append(hello[:3] + struct.pack(">H", len(piece)) + piece)
    client.begin()
    check_data(client, half, 100)
    client.ends()


def everything_may_come_at_once():
    """The end of TLS's handshake, NBD's, and requests."""
    client = Client(ssl.TLSVersion.TLSv1_3)
    while not client.shake():
        client.deliver()
        client.hear()
    client.say(opening(client.form)[len(FIXED):] + request(client.form, WRITE, half, 4, cookie=3) + b"once")
    client.deliver()
    while client.option_reply()[:2] != (GO, ACK):
        pass
    assert client.reply() == (3, 0, b"")
    client.ends()


# ---- wrong

def spoil(records, rng):
    """Changes what is on the way."""
    whole = bytearray(b"".join(records))
    n = rng.randrange(len(records))
    kind = rng.choice(("flip", "flip", "flip", "length", "cut", "drop", "repeat", "swap", "insert", "zeroes", "alerts"))
    if kind == "flip":
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        return bytes(whole)
    if kind == "cut":
        return bytes(whole[:rng.randrange(len(whole))])
    if kind == "length":
        records[n] = records[n][:3] + rng.randbytes(2) + records[n][5:]
    elif kind == "drop":
        del records[n]
    elif kind == "repeat":
        records.insert(n, records[n])
    elif kind == "swap":
        records[n], records[-1] = records[-1], records[n]
    elif kind == "insert":
        body = rng.randbytes(rng.choice((0, 1, 20, 16384, 16641, 65535)))
        records.insert(n, struct.pack(">BHH", rng.choice((20, 21, 22, 23, 24, rng.randrange(256))), 0x303, len(body)) + body)
    elif kind == "zeroes":
        records.insert(n, struct.pack(">BHH", rng.choice((20, 22, 23)), 0x303, 0) * 200)
    else:
        records.insert(n, b"\x15\3\3\0\2\1" + bytes([rng.choice((0, 90, 100, 112))]) + b"\x15\3\3\0\2\1\x70" * 1000)
    return b"".join(records)


def spoilt_handshakes_end(version, rng):
    client = Client(version)
    steps = rng.randrange(2)
    try:
        for _ in range(steps):
            client.deliver()
            client.hear()
            client.shake()
        client.socket.sendall(spoil(client.records, rng))
    except (OSError, EOFError):
        pass
    client.ends()


def spoilt_data_end(version, rng):
    """A write whose last record was not what the client said is not carried out."""
    client = connected(version)
    length = rng.choice((1, 5000, 16384, 50000))
    client.say(request(client.form, WRITE, half + 2 * MIB, length) + b"w" * length)
    *records, last = client.records
    spoilt = spoil([last], rng)
    if spoilt[:len(last)] == last:
        spoilt = b""
    try:
        client.socket.sendall(b"".join(records) + spoilt)
    except OSError:
        pass
    client.ends()


def nothing_was_carried_out(reader):
    reader.say(request(reader.form, READ, half + 2 * MIB, 50000, cookie=4))
    reader.deliver()
    assert reader.reply() == (4, 0, bytes(50000)), "a write was carried out though its record was spoilt"


def in_the_middle_of_a_session(version):
    """Records in clear, which everybody between client and server could send."""
    for record in (b"\x15\3\3\0\2\1\0", b"\x15\3\3\0\2\2\x28", b"\x16\3\3\0\4\0\0\0\0", b"\x17\3\3\0\5hello",
                   b"\x14\3\3\0\1\1", b"GET / HTTP/1.1\r\n\r\n"):
        client = connected(version)
        client.socket.sendall(record)
        # At once, though more might come.
        client.until_end()
        client.socket.close()


# ---- with patience

def half_open_handshakes_are_ended(neighbour):
    clients = [Client() for _ in range(40)]
    for number, client in enumerate(clients):
        data = b"".join(client.records)
        client.socket.sendall(data if number % 3 else data[:number])
    neighbour.check("half-open handshakes")
    start = time.monotonic()
    for client in clients:
        client.until_end()
        client.socket.close()
    assert time.monotonic() - start < HANDSHAKE_LIMIT + 10


def hellos_without_end_keep_nobody_waiting(neighbour):
    for _ in range(100):
        client = Client()
        client.deliver()
        client.reset()
    neighbour.check("handshakes without end")


def deaf_clients_keep_nobody_waiting(neighbour):
    clients = [connected(VERSIONS[0]) for _ in range(8)]
    for number, client in enumerate(clients):
        length = 32 * MIB if number % 2 else MIB
        client.say(request(client.form, READ, half - length, length) * 1000)
        client.socket.settimeout(0.1)
        try:
            client.deliver()
        except TimeoutError:
            pass
    neighbour.check("deaf clients")
    for client in clients:
        client.reset()


def attack(neighbour, rng):
    def step(attempt, *arguments):
        attempt(*arguments)
        neighbour.check(attempt.__name__)

    step(everything_may_come_at_once)
    for version in VERSIONS:
        step(bytes_may_come_one_by_one, version)
        step(records_may_be_of_any_size, version)
        step(hello_may_come_in_many_records, version)
        step(in_the_middle_of_a_session, version)
        reader = connected(version)
        reader.say(request(reader.form, WRITE, half + 2 * MIB, 50000, cookie=1) + bytes(50000))
        reader.deliver()
        assert reader.reply() == (1, 0, b"")
        for _ in range(100):
            step(spoilt_handshakes_end, version, rng)
            step(spoilt_data_end, version, rng)
        nothing_was_carried_out(reader)
        reader.ends()
    step(half_open_handshakes_are_ended, neighbour)
    step(hellos_without_end_keep_nobody_waiting, neighbour)
    step(deaf_clients_keep_nobody_waiting, neighbour)


def main():
    neighbour = Neighbour(honest)
    neighbour.check("nobody")
    belongings = Belongings(pid, memory_limit)
    seed = int(os.environ.get("LOOP_SEED", 1))
    random.seed(seed)
    try:
        attack(neighbour, random.Random(seed))
    except BaseException:
        print(f"with LOOP_SEED={seed}", file=sys.stderr)
        raise
    belongings.check()
    neighbour.end()


main()
