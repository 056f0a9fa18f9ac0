# SPDX-License-Identifier: BSD-3-Clause
"""Does to nbdloopd what no client should.

    hostile.py SOCKET PID SIZE MEMORY

An honest client beside it must not notice (neighbour.py).  What is wrong is refused as the protocol says, or
disconnected.  In the end the server has as many descriptors as before, and has kept no more than the MEMORY (bytes) that
it may use for requests.  The honest client uses the first half of the export of SIZE bytes; the others the rest.
"""
import os
import random
import socket
import sys
import time

import nbd

from neighbour import Belongings, Neighbour
from raw_nbd import *

BLOCK = 4096
MIB = 1 << 20
HANDSHAKE_LIMIT = 3  # seconds, which the server was told

path = sys.argv[1]
pid, size, memory_limit = map(int, sys.argv[2:])
half = size // 2


def honest():
    handle = nbd.NBD()
    handle.connect_unix(path)
    return handle


# ---- the handshake

def pieces(data):
    return [data[:n] for n in range(len(data))]


def bad_options():
    """Options that are refused, with the refusal."""
    for number in 0, 4, 12, 99, 0xffffffff:
        yield ERR_UNSUP, number, b"data"
    for number in LIST, STRUCTURED, EXTENDED, STARTTLS:
        yield ERR_INVALID, number, b"x"
    yield ERR_UNSUP, STARTTLS, b""
    for number in INFO, GO:
        for piece in pieces(go_data(b"", (1, 3))):
            yield ERR_INVALID, number, piece
        yield ERR_INVALID, number, go_data() + b"x"
        yield ERR_INVALID, number, go_data(bytes(4))
        yield ERR_INVALID, number, go_data(b"n" * 4097)
        yield ERR_INVALID, number, b"\xff\xff\xff\xff" + bytes(6)
        yield ERR_INVALID, number, string(b"") + b"\xff\xff\0\0"
        yield ERR_UNKNOWN, number, go_data(b"n" * 4096)
        yield ERR_TOO_BIG, number, go_data(b"n" * 20000)
    yield ERR_INVALID, SET_META, meta_data(b"base:allocation")  # before structured replies
    for piece in pieces(meta_data(b"base:", b"base:allocation")):
        yield ERR_INVALID, LIST_META, piece
    yield ERR_INVALID, LIST_META, string(b"") + b"\xff\xff\xff\xff"
    yield ERR_INVALID, LIST_META, string(b"") + b"\0\0\0\1\xff\xff\xff\xff"
    yield ERR_INVALID, LIST_META, meta_data() + b"x"
    yield ERR_UNKNOWN, LIST_META, meta_data(name=b"nothing")
    yield ERR_TOO_BIG, LIST_META, meta_data(*[b""] * 5000)


def malformed_options_are_refused():
    with Raw(path) as client:
        client.greeting()
        client.send(FIXED)
        for refusal, number, data in bad_options():
            client.send(option(number, data))
            number_seen, seen, _ = client.option_reply()
            assert (number_seen, seen) == (number, refusal), (number, data[:32], hex(seen))
        client.send(option(EXTENDED) + option(STRUCTURED))
        assert [client.option_reply()[1] for _ in range(2)] == [ACK, ERR_EXT_HEADER_REQD]
        # As many contexts as an option has room for are no reason to refuse it.
        client.send(option(SET_META, meta_data(*[b"x:y"] * 2000, b"base:allocation")))
        assert [client.option_reply()[1] for _ in range(2)] == [4, ACK]
        client.send(option(GO, go_data()))
        while client.option_reply()[1] != ACK:
            pass


def hopeless_handshakes_are_disconnected():
    for said in (b"\0\0\0\7", b"\xff\xff\xff\xff", bytes(4) + option(LIST), FIXED + b"IHAVEOPS" + bytes(8),
                 FIXED + option(GO, length=0xffffffff), FIXED + option(99, length=1 << 31),
                 FIXED + option(EXPORT_NAME, b"n" * 4097), FIXED + option(EXPORT_NAME, b"nothing"),
                 FIXED + option(EXPORT_NAME, b"\0"), FIXED + option(EXTENDED) + option(EXPORT_NAME),
                 FIXED + option(ABORT), b"GET / HTTP/1.1\r\n\r\n"):
        with Raw(path) as client:
            client.greeting()
            client.send(said)
            assert client.until_end() == b"" or said == FIXED + option(ABORT) or EXTENDED in said, said


def nobody_fills_the_log():
    for _ in range(100):
        with Raw(path) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            client.until_end()


def option_floods_end():
    with Raw(path) as client:
        client.greeting()
        try:
            client.send(FIXED + option(LIST) * 5000)
        except ConnectionError:
            pass
        assert len(client.until_end()) < 2000 * 100


# ---- requests

def expect(client, error, kind, offset, length, payload=b"", **keywords):
    cookie = random.getrandbits(64)
    client.send(request(client.form, kind, offset, length, cookie=cookie, **keywords) + payload)
    seen = client.reply(length if kind == READ else 0)
    assert seen[:2] == (cookie, error), (client.form, kind, offset, length, keywords, seen[:2])
    return seen[2]


def bad_requests_are_refused(form):
    too_long = EINVAL if form == SIMPLE else EOVERFLOW
    with Raw(path, form) as client:
        expect(client, 0, WRITE, half, BLOCK, bytes(BLOCK))
        for kind in 8, 9, 0x8000, 0xffff:
            expect(client, EINVAL, kind, 0, 0)
        for kind in READ, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS:
            expect(client, EINVAL, kind, half, 0 if kind == FLUSH else BLOCK, flags=1 << 15)
        for length in BLOCK, MIB:
            expect(client, EINVAL, WRITE, half, length, b"w" * length, flags=1 << 15)
        expect(client, EINVAL, WRITE, half, BLOCK, b"w" * BLOCK, flags=REQ_ONE | FAST_ZERO)
        for kind in READ, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS:
            error = ENOSPC if kind == WRITE_ZEROES else EINVAL
            for offset in size, size - 1, 1 << 63, (1 << 64) - 1:
                expect(client, error, kind, offset, 2)
        for offset in size, size - 1, 1 << 63, (1 << 64) - 1:
            expect(client, ENOSPC, WRITE, offset, 2, b"ww")
        expect(client, EINVAL, FLUSH, 1, 1)
        expect(client, too_long, READ, 0, 64 * MIB + 1)
        expect(client, EINVAL, READ, 0, 0xffffffff)
        expect(client, EINVAL, BLOCK_STATUS, 0, 0)
        for kind in READ, WRITE, TRIM, WRITE_ZEROES:
            for offset in 0, half, size:
                assert expect(client, 0, kind, offset, 0) == b""
        if form == SIMPLE:
            expect(client, EINVAL, BLOCK_STATUS, 0, BLOCK)
        if form == EXTENDED_FORM:
            for kind in READ, TRIM, BLOCK_STATUS:
                expect(client, EINVAL, kind, half, 5, b"extra", flags=PAYLOAD_LEN)
                expect(client, EINVAL, kind, 0, 1 << 63)
        # Nothing of this was carried out, and the connection is as good as before.
        assert expect(client, 0, READ, half, BLOCK) == bytes(BLOCK)
        for _ in range(2):
            client.request(READ, half, BLOCK, cookie=7)
        assert [client.reply(BLOCK) for _ in range(2)] == [(7, 0, bytes(BLOCK))] * 2


def hopeless_requests_are_disconnected(form):
    said = [request(form, READ, 0, BLOCK, magic=0x12345678), bytes(64), b"\xff" * 64,
            request(EXTENDED_FORM if form != EXTENDED_FORM else SIMPLE, READ, 0, BLOCK) + bytes(32),
            request(form, WRITE, half, 0xffffffff), request(form, WRITE, half, 64 * MIB + 1)]
    if form == EXTENDED_FORM:
        said += [request(form, WRITE, half, length) for length in (1 << 63, (1 << 64) - 1)]
        said += [request(form, READ, half, 1 << 63, flags=PAYLOAD_LEN)]
    for bytes_said in said:
        with Raw(path, form) as client:
            client.send(bytes_said)
            assert client.until_end() == b"", bytes_said


def every_prefix_of_a_dialogue_ends(form):
    dialogue = (opening(form) + request(form, WRITE, half, 16) + b"w" * 16 + request(form, READ, half, 16) +
                request(form, BLOCK_STATUS, half, BLOCK) + request(form, FLUSH) + request(form, DISC))
    for n in range(len(dialogue)):
        with Raw(path) as client:
            client.send(dialogue[:n])
            if n % 3 == 0:
                client.reset()
            elif n % 3 == 1:
                client.socket.shutdown(socket.SHUT_WR)
                assert client.until_end()[:8] == b"NBDMAGIC"
    with Raw(path) as client:
        for byte in dialogue:
            client.send(bytes([byte]))
        assert len(client.until_end()) > 18


def unfinished_writes_are_not_carried_out(form):
    with Raw(path, form) as client:
        expect(client, 0, WRITE, half, 256 << 10, bytes(256 << 10))
        for length in BLOCK, 60000, 256 << 10:
            for missing in 1, length // 2:
                other = Raw(path, form)
                other.send(request(form, WRITE, half, length) + b"w" * (length - missing))
                if missing == 1:
                    other.reset()
                else:
                    other.socket.shutdown(socket.SHUT_WR)
                    assert other.until_end() == b""
        time.sleep(0.1)
        assert expect(client, 0, READ, half, 256 << 10) == bytes(256 << 10), "half a write was carried out"


def random_request(form, rng):
    """Most of them make sense. Around the first byte, the middle and the end of the export; behind the middle, where the
    neighbour isn't, if it writes."""
    kind = rng.choice((READ, READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS, 8))
    flags = rng.choice((0, 0, 0, FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO, rng.randrange(32)))
    length = rng.choice((0, 1, 512, BLOCK, rng.randrange(BLOCK), rng.randrange(64 << 10), rng.randrange(2 * MIB + 1)))
    place = rng.choice((0, half, size))
    offset = max(0, place + rng.choice((0, 0, -length, 1, -1, 512, -BLOCK, rng.randint(-MIB, MIB))))
    if kind in (WRITE, TRIM, WRITE_ZEROES):
        offset = max(offset, half)
    if kind == FLUSH and rng.random() < 0.9:
        offset = length = 0
    return kind, offset, length, flags


def random_requests_are_answered(form, rng):
    """Whatever is asked for, a few at a time: each has one reply, which can be taken apart."""
    with Raw(path, form) as client:
        for _ in range(125):
            asked = [random_request(form, rng) for _ in range(4)]
            for cookie, (kind, offset, length, flags) in enumerate(asked):
                client.send(request(form, kind, offset, length, flags, cookie) +
                            (rng.randbytes(length) if kind == WRITE else b""))
            unanswered = set(range(4))
            try:
                while unanswered:
                    cookie, error, data = client.reply([length if kind == READ else 0 for kind, _, length, _ in asked])
                    unanswered.remove(cookie)
                    assert asked[cookie][0] != READ or error or len(data) == asked[cookie][2], (cookie, error, len(data))
            except (AssertionError, KeyError, OSError, EOFError) as problem:
                raise AssertionError(f"{form} {asked}: {problem!r}") from problem
        expect(client, 0, READ, half, 512)


# ---- with patience

def send_what_is_taken(client, data):
    client.socket.settimeout(0.1)
    try:
        client.send(data)
    except TimeoutError:
        pass


def deaf_clients_keep_nobody_waiting(form, neighbour):
    """They ask and ask, and take no reply."""
    clients = [Raw(path, form) for _ in range(8)]
    for number, client in enumerate(clients):
        length = 32 * MIB if number % 2 else MIB
        send_what_is_taken(client, request(form, READ, half - length, length) * 3000)
    neighbour.check("deaf clients")
    for number, client in enumerate(clients):
        if number % 4 == 0:
            client.socket.settimeout(TIMEOUT)
            client.receive(100)  # and leaves in the midst of it
        client.reset()


def promised_payloads_keep_nobody_waiting(form, neighbour):
    clients = [Raw(path, form) for _ in range(40)]
    for client in clients:
        client.send(request(form, WRITE, half, 32 * MIB) + b"w")
    neighbour.check("writes without their data")
    for client in clients:
        client.reset()


def slow_handshakes_are_ended(neighbour):
    """Half of them say nothing, half a byte now and then."""
    clients = [Raw(path) for _ in range(20)]
    dialogue = opening(STRUCTURED_FORM)
    start = time.monotonic()
    for byte in dialogue:
        if time.monotonic() - start > HANDSHAKE_LIMIT + 1.5:
            break
        for client in clients[::2]:
            try:
                client.send(bytes([byte]))
            except ConnectionError:
                pass
        time.sleep(0.3)
    neighbour.check("clients that say nothing")
    for client in clients:
        assert client.until_end()[:8] == b"NBDMAGIC"
        client.socket.close()


def attack(neighbour, rng):
    def step(attempt, *arguments):
        attempt(*arguments)
        neighbour.check(attempt.__name__)

    step(malformed_options_are_refused)
    step(hopeless_handshakes_are_disconnected)
    step(option_floods_end)
    step(nobody_fills_the_log)
    for form in FORMS:
        step(bad_requests_are_refused, form)
        step(hopeless_requests_are_disconnected, form)
        step(every_prefix_of_a_dialogue_ends, form)
        step(unfinished_writes_are_not_carried_out, form)
        step(random_requests_are_answered, form, rng)
        step(deaf_clients_keep_nobody_waiting, form, neighbour)
        step(promised_payloads_keep_nobody_waiting, form, neighbour)


def main():
    neighbour = Neighbour(honest)
    neighbour.check("nobody")
    belongings = Belongings(pid, memory_limit)
    seed = int(os.environ.get("LOOP_SEED", 1))
    rng = random.Random(seed)
    try:
        for _ in range(2):
            attack(neighbour, rng)
    except BaseException:
        print(f"with LOOP_SEED={seed}", file=sys.stderr)
        raise
    slow_handshakes_are_ended(neighbour)
    belongings.check()
    neighbour.end()


main()
