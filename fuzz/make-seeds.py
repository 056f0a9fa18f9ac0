#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make-seeds.py DIRECTORY: writes the seeds of the fuzzers, one conversation or session each.

What comes before the client's bytes is described in each fuzz_<surface>.c.  The seeds found-* are not from here: long
runs of the fuzzers found them, and each reaches code that those before it don't.
"""
import pathlib
import struct
import sys

OPTION_MAGIC = b"IHAVEOPT"
FIXED = struct.pack(">I", 3)
(EXPORT_NAME, ABORT, LIST, _, STARTTLS, INFO, GO, STRUCTURED, LIST_META, SET_META, EXTENDED) = range(1, 12)
SIMPLE_FORM, STRUCTURED_FORM, EXTENDED_FORM = range(3)
ALL_FLAGS = 0x0ded


def option(number, data=b""):
    return OPTION_MAGIC + struct.pack(">II", number, len(data)) + data


def string(text):
    return struct.pack(">I", len(text)) + text


def go(name, *infos, number=GO):
    return option(number, string(name) + struct.pack(f">H{len(infos)}H", len(infos), *infos))


def context(number, name, *queries):
    return option(number, string(name) + struct.pack(">I", len(queries)) + b"".join(map(string, queries)))


def handshake(*options, setup=b"\x00\x07\x00", flags=FIXED):
    return setup + flags + b"".join(options)


HANDSHAKES = {
    "export-name": handshake(option(EXPORT_NAME, b"a")),
    "export-name-of-an-old-client": handshake(option(EXPORT_NAME), flags=bytes(4)),
    "list": handshake(option(LIST), option(LIST), go(b"a")),
    "list-is-off": handshake(option(LIST), go(b"a"), setup=b"\x04\x03\x00"),
    "go": handshake(go(b"a", 0, 1, 2, 3)),
    "info-then-go": handshake(go(b"", 3, number=INFO), go(b"n" * 4096, 1, 2)),
    "go-is-refused": handshake(go(b"nothing"), go(b"a"), option(ABORT), setup=b"\x08\x05\x00"),
    "contexts": handshake(option(STRUCTURED), context(LIST_META, b"a"), context(LIST_META, b"a", b"base:"),
                          context(SET_META, b"a", b"x-other:y", b"base:allocation"), go(b"a")),
    "extended": handshake(option(EXTENDED), option(STRUCTURED), context(SET_META, b"", b"base:allocation"), go(b"")),
    "starttls": handshake(option(STRUCTURED), option(STARTTLS), option(STARTTLS), go(b"a"), setup=b"\x01\x01\x00"),
    "tls-is-required": handshake(option(LIST), option(STARTTLS), option(EXPORT_NAME, b"a"), setup=b"\x02\x01\x00"),
    "unknown-and-too-long": handshake(option(99, b"data"), option(INFO, bytes(17000)), option(ABORT, b"bye")),
    "malformed": handshake(option(GO, b"\xff\xff\xff\xff\0\0"), option(SET_META, string(b"a") + b"\0\0\0\2"),
                           option(LIST, b"x"), option(STRUCTURED, b"x"), go(b"a\0b")),
    "shutdown": handshake(go(b"a"), option(ABORT), setup=b"\x10\x02\x00"),
}


GREETING = b"NBDMAGICIHAVEOPT\0\3"


def option_reply(kind, data=b"", number=GO):
    return struct.pack(">QIII", 0x3E889045565A9, number, kind, len(data)) + data


EXPORT_INFO = option_reply(3, struct.pack(">HQH", 0, 1 << 30, 0x6D))
BLOCK_INFO = option_reply(3, struct.pack(">HIII", 3, 4096, 65536, 1 << 25))

# What a server says; the first byte is the size of the pieces.
SERVERS = {
    "go": b"\x10" + GREETING + EXPORT_INFO + BLOCK_INFO + option_reply(1),
    "go-is-unknown": b"\x01" + GREETING + option_reply(0x80000001) + struct.pack(">QH", 1 << 30, 0x6D),
    "refused": b"\x7f" + GREETING + option_reply(0x80000006, b"no such export"),
    "tls": b"\x81" + GREETING + option_reply(1, number=STARTTLS),
    "tls-is-refused": b"\xff" + GREETING + option_reply(0x80000002, b"not here", number=STARTTLS),
    "tls-and-more": b"\x90" + GREETING + option_reply(1, number=STARTTLS) + EXPORT_INFO,
    "oldstyle": b"\x20" + b"NBDMAGIC" + struct.pack(">QQI", 0x420281861253, 1 << 30, 1) + bytes(124),
}


def session(form, *requests, flags=ALL_FLAGS, size=1 << 30, min_block=9):
    return struct.pack(">BBBBHQ", form, 5, min_block, 1, flags, size) + b"".join(requests)


def request(form, kind, offset, length, flags=0, choice=9):
    if form == EXTENDED_FORM:
        return struct.pack(">IHHQQQB", 0x21E41C71, flags, kind, 0x1122334455667788, offset, length, choice)
    return struct.pack(">IHHQQIB", 0x25609513, flags, kind, 0x1122334455667788, offset, length, choice)


def all_commands(form):
    payload = 0x20 if form == EXTENDED_FORM else 0
    return session(form,
                   request(form, 0, 0, 4096),
                   request(form, 1, 512, 1 << 20, 1 | payload),
                   request(form, 3, 0, 0),
                   request(form, 4, 1 << 20, 1 << 29),
                   request(form, 5, 0, 65536),
                   request(form, 6, 0, 1 << 30, 1 | 2 | 16),
                   request(form, 7, 100, 1 << 20),
                   request(form, 8, 0, 0),
                   request(form, 2, 0, 0))


REQUESTS = {
    "simple": all_commands(SIMPLE_FORM),
    "structured": all_commands(STRUCTURED_FORM),
    "extended": all_commands(EXTENDED_FORM),
    "read-only": session(STRUCTURED_FORM, *(request(STRUCTURED_FORM, kind, 0, 512) for kind in range(8)),
                         flags=ALL_FLAGS | 2),
    "past-the-end": session(EXTENDED_FORM, request(EXTENDED_FORM, 0, (1 << 64) - 1, 2),
                            request(EXTENDED_FORM, 6, 1 << 29, (1 << 29) + 1),
                            request(EXTENDED_FORM, 4, 1 << 63, 1 << 63), size=(1 << 64) - 1),
    "payload-too-long": session(EXTENDED_FORM, request(EXTENDED_FORM, 1, 0, 1 << 40, 0x20),
                                request(EXTENDED_FORM, 7, 0, 12, 0x20), request(EXTENDED_FORM, 1, 0, 512)),
    "extents": session(EXTENDED_FORM, request(EXTENDED_FORM, 7, 3, 1 << 29),
                       bytes(range(3, 243)), min_block=16),
    "one-extent": session(STRUCTURED_FORM, request(STRUCTURED_FORM, 7, 0, 1 << 20, 8), bytes(range(60)), min_block=0),
    "nothing": session(STRUCTURED_FORM, *(request(STRUCTURED_FORM, kind, 0, 0) for kind in range(8))),
}


CONTROLS = {
    "requests": b"\3status\nset direct-io=on\nset direct-io=off export=a b\nresize\nresize export=disk\n"
                b"add a=/b,offset=1M\nremove export=a\n",
    "rules": b"\4set allow=psk:a%20b,uid:1 allow-write=any export=a b\nset allow-write=none\nset  allow=\n"
             b"set allow=a allow=b\nset allow=a direct-io=on\ndisconnect any\ndisconnect net:::/0 export=\ndisconnect\n"
             b"disconnect a b\n",
    "snapshots": b"\6snapshot a\nsnapshot b scratch=/c scratch-size=1M expire=60 export=d e\nsnapshot\n"
                 b"snapshot a scratch=\nsnapshot a expire=0\nsnapshot a scratch-size=16E scratch-size=1\n",
    "malformed": b"\1status now\nset\nset direct-io=maybe\nset direct-io=on disk\nresize disk\nadd a\nremove\n"
                 b"  help\n\n",
    "odd-bytes": b"\5remove export=\xf0\x9f\x98\x80\xff\xc3\\\"\t\x7f\nadd =\r\x1b\nsta\0tus\n",
    "no-newline": b"\2status",
    "longest": b"\xffremove export=" + b"n" * 4593 + b"\nstatus\n",
    "too-long": b"\xffremove export=" + b"n" * 4594 + b"\nstatus\n",
}


(DELIVER, EXCHANGE, WRITE, WRITE_BYTES, ANSWER, SPLIT, MERGE, UPDATE_KEYS, CLOSE, FLIP, CUT, REPEAT, INSERT, ALERT,
 NEGOTIATE) = range(15)


def tls(*commands, setup=0):
    """Each command: its number, its own number, and the data that an INSERT has."""
    return bytes([setup]) + b"".join(struct.pack(">BH", *command[:2]) + b"".join(command[2:]) for command in commands)


# What is done on TLS; setup is 1 for TLS 1.2, 2 for certificates, 4 for little room for the output,
# 8 to test a client.
SESSIONS = {
    "data": tls((EXCHANGE, 0), (WRITE, 20000), (ANSWER, 60000), (EXCHANGE, 0), (WRITE, 1), (DELIVER, 3), (CLOSE, 0)),
    "old-data": tls((EXCHANGE, 0), (WRITE, 20000), (ANSWER, 60000), (EXCHANGE, 0), (WRITE, 1), (DELIVER, 3), (CLOSE, 0), setup=1),
    "little-room": tls((DELIVER, 100), (EXCHANGE, 0), (ANSWER, 5), setup=4),
    "records-of-one-byte": tls((EXCHANGE, 0), (WRITE_BYTES, 255), (DELIVER, 1), (DELIVER, 4), (DELIVER, 40), (EXCHANGE, 0)),
    "full-records": tls((EXCHANGE, 0), (WRITE, 65535), (DELIVER, 16384), (WRITE, 65535), (EXCHANGE, 0)),
    "hello-in-many-records": tls((SPLIT, 1), (DELIVER, 100), (EXCHANGE, 0), (WRITE, 100)),
    "old-hello-in-many-records": tls((SPLIT, 50), (MERGE, 0), (SPLIT, 7), (EXCHANGE, 0), (WRITE, 100), setup=1),
    "new-keys": tls((EXCHANGE, 0), (WRITE, 10), (UPDATE_KEYS, 1), (WRITE, 10), (UPDATE_KEYS, 0), (WRITE, 10), (EXCHANGE, 0),
                    (ANSWER, 100), (EXCHANGE, 0), (WRITE, 10)),
    "new-keys-for-ever": tls((EXCHANGE, 0), *[(UPDATE_KEYS, 1), (WRITE, 1)] * 20, (EXCHANGE, 0)),
    "hello-is-changed": tls((FLIP, 600), (EXCHANGE, 0)),
    "record-is-changed": tls((EXCHANGE, 0), (WRITE, 100), (FLIP, 500), (EXCHANGE, 0)),
    "length-is-changed": tls((EXCHANGE, 0), (WRITE, 100), (FLIP, 4 * 8), (EXCHANGE, 0), (WRITE, 500), (EXCHANGE, 0)),
    "record-is-missing": tls((EXCHANGE, 0), (WRITE_BYTES, 3), (CUT, 23), (EXCHANGE, 0)),
    "record-comes-twice": tls((EXCHANGE, 0), (WRITE_BYTES, 3), (REPEAT, 23), (EXCHANGE, 0)),
    "hello-comes-twice": tls((REPEAT, 1000), (EXCHANGE, 0)),
    "warnings": tls(*[(ALERT, 112 << 8)] * 30, (EXCHANGE, 0), *[(ALERT, 90 << 8)] * 30, (WRITE, 10), (EXCHANGE, 0)),
    "fatal-alert": tls((EXCHANGE, 0), (WRITE, 10), (ALERT, 40 << 8 | 1), (WRITE, 10), (EXCHANGE, 0)),
    "alert-first": tls((ALERT, 40 << 8 | 1), (EXCHANGE, 0)),
    "another-handshake": tls((EXCHANGE, 0), (WRITE, 10), (NEGOTIATE, 0), (WRITE, 10), (EXCHANGE, 0), setup=1),
    "empty-records": tls((EXCHANGE, 0), *[(INSERT, 5, b"\x17\3\3\0\0")] * 20, (EXCHANGE, 0)),
    "endless-record": tls((INSERT, 5, b"\x16\3\1\xff\xff"), *[(REPEAT, 5)] * 5, (EXCHANGE, 0)),
    "in-clear": tls((CUT, 2000), (INSERT, 16, b"IHAVEOPT" + struct.pack(">II", LIST, 0)), (EXCHANGE, 0)),
}

# The same, done to the other side and with certificates.
SESSIONS |= {
    f"{who}-{name}": bytes([seed[0] | setup]) + seed[1:]
    for who, setup in (("client", 8), ("certificates", 2), ("client-certificates", 10))
    for name, seed in tuple(SESSIONS.items())
    if name in ("data", "old-data", "little-room", "old-hello-in-many-records", "hello-is-changed", "record-is-changed",
                "warnings", "another-handshake", "new-keys")
}


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def delta_header(size, number, bitmap=b"monday", source=b"nbd://a/x", version=1):
    fixed = b"NBDDELTA" + struct.pack(">IIQQQ", version, 84 + len(source) + len(bitmap), size, number, 1)
    fixed += b"i" * 16 + (b"p" if number else b"\0") * 16 + struct.pack(">II", len(source), len(bitmap)) + source + bitmap
    return fixed + struct.pack(">I", crc32c(fixed))


def delta(header, *records, setup=0):
    """Each record: its type, offset, length, and the data that one of type 1 has."""
    seed, = struct.unpack(">I", header[-4:])
    data = bytes([setup]) + header
    for kind, offset, length, *content in records:
        record = struct.pack(">IIQQI", kind, crc32c(content[0], seed) if content else 0, offset, length, 0)
        data += record + struct.pack(">I", crc32c(record, seed)) + b"".join(content)
    return data


# Files of deltas; setup is 1 if the fuzzer is to mend the checksums.
DELTAS = {
    "full": delta(delta_header(1 << 20, 0), (1, 0, 4, b"data"), (1, 65536, 2, b"up"), (3, 2, 6)),
    "increment": delta(delta_header(1 << 20, 7), (2, 4096, 8192), (1, 0, 4, b"data"), (3, 2, 4)),
    "mended": delta(delta_header(1 << 20, 7), (2, 4096, 8192), (1, 0, 4, b"data"), (3, 2, 4), setup=1),
    "no-texts": delta(delta_header(0, 0, b"", b""), (3, 0, 0), setup=1),
    "beyond-the-end": delta(delta_header(4096, 1), (2, 4095, 2), setup=1),
    "around-the-end": delta(delta_header(4096, 1), (2, (1 << 64) - 1, 2), setup=1),
    "record-too-large": delta(delta_header(1 << 40, 1), (1, 0, 1 << 30, b""), setup=1),
    "unknown-record": delta(delta_header(4096, 1), (9, 0, 1), setup=1),
    "later-version": delta(delta_header(4096, 1, version=2), (3, 0, 0), setup=1),
    "torn-header": delta(delta_header(4096, 1))[:60],
}


def entry(name, granule=65536, covered=1000000, granules=16, first=0):
    return name.ljust(136, b"\0") + struct.pack("<6Q", granule, 1, covered, granules, first, 7)


def record(*entries, state=1, kind=1, version=1, count=None, region=16 << 20, reason=b""):
    """The header, without the zeroes at its end: the fuzzer adds these, and the checksum."""
    header = b"nbdloopC" + struct.pack("<IIQ40sII", version, state, 5, b"boot", kind, len(entries) if count is None else count)
    header += struct.pack("<10Q", *range(10)) + struct.pack("<Q160s", region, reason) + b"\1" + bytes(511)
    return b"\1" + header + b"".join(entries)


# Headers of records of checkpoints; the first byte is 1 if the fuzzer is to mend the checksums.
RECORDS = {
    "in-use": record(entry(b"monday"), entry(b"tuesday", 4096, 4096, 5000, 1)),
    "closed": record(entry(b"monday"), state=2, kind=2),
    "unknown": record(entry(b"monday"), state=3, reason=b"why"),
    "empty": record(),
    "same-name": record(entry(b"monday"), entry(b"monday", first=1)),
    "same-block": record(entry(b"monday"), entry(b"tuesday")),
    "no-name": record(entry(b"")),
    "too-many": record(entry(b"monday"), count=33),
    "later-version": record(entry(b"monday"), version=2),
    "huge": record(entry(b"monday", 1 << 20, 0, (1 << 63) - 1, 1 << 60)),
    "torn": b"\0" + record(entry(b"monday"))[1:600],
    "block": b"\1" + bytes(range(200)) + bytes(312),
}


def layer(size=1 << 30, visible=None, granule=4096, capacity=1 << 36, state=1, version=1, boot=b"boot", base=1, path=b"base.raw"):
    """The header of a layer, without the zeroes at its end, and with the places that follow."""
    blocks = -(-capacity // (granule * 3968)) if granule else 0
    recent = 8192 + 2 * 512 * blocks
    data = -(-(recent + 512 * blocks) // (1 << 20)) << 20
    header = b"nbdloopL" + struct.pack("<IIQ16s", version, state, 2, b"identity")
    header += struct.pack("<6Q", size, size if visible is None else visible, granule, capacity, recent & (1 << 64) - 1,
                          data & (1 << 64) - 1)
    return b"\1" + header + boot.ljust(40, b"\0") + struct.pack("<IIQQ16s", base, 0, size, 7, b"") + path


# The same for layers, and a block of a map.
LAYERS = {
    "writable": layer(),
    "sealed": layer(state=2, boot=b""),
    "on-nothing": layer(base=0, path=b"", visible=0),
    "large-granules": layer(granule=65536),
    "odd-granule": layer(granule=5000),
    "largest": layer(size=1 << 50, capacity=1 << 50),
    "too-large": layer(size=1 << 63, capacity=1 << 63),
    "larger-than-its-map": layer(size=1 << 37),
    "unknown-base": layer(base=3),
    "endless-path": layer(path=b"x" * 1024),
    "endless-boot": layer(boot=b"x" * 40),
    "later-version": layer(version=2),
    "torn": b"\0" + layer()[1:100],
    "block": b"\1" + bytes(range(200)) + bytes(296) + struct.pack("<QI", 2, 0),
}


def main():
    for surface, seeds in (("client", SERVERS), ("control", CONTROLS), ("delta", DELTAS), ("handshake", HANDSHAKES), ("layer", LAYERS),
                           ("record", RECORDS), ("request", REQUESTS), ("tls", SESSIONS)):
        directory = pathlib.Path(sys.argv[1]) / surface
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (directory / name).write_bytes(data)


main()
