# SPDX-License-Identifier: BSD-3-Clause
"""An NBD client that composes its bytes itself, and so can send what no library would.

It waits for each answer for a limited time, and parses replies by their own headers only.
"""
import socket
import struct

from waiting import TIMEOUT

OPTION_MAGIC = b"IHAVEOPT"
OPTION_REPLY_MAGIC = 0x3E889045565A9
(EXPORT_NAME, ABORT, LIST, _, STARTTLS, INFO, GO, STRUCTURED, LIST_META, SET_META, EXTENDED) = range(1, 12)
ACK = 1
(ERR_UNSUP, ERR_POLICY, ERR_INVALID, ERR_PLATFORM, ERR_TLS_REQD, ERR_UNKNOWN, ERR_SHUTDOWN,
 ERR_BLOCK_SIZE_REQD, ERR_TOO_BIG, ERR_EXT_HEADER_REQD) = range(1 << 31 | 1, (1 << 31) + 11)

READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO, PAYLOAD_LEN = (1 << bit for bit in range(6))
EINVAL, ENOSPC, EOVERFLOW = 22, 28, 75

SIMPLE, STRUCTURED_FORM, EXTENDED_FORM = "simple", "structured", "extended"
FORMS = SIMPLE, STRUCTURED_FORM, EXTENDED_FORM
FIXED = struct.pack(">I", 3)


def option(number, data=b"", length=None):
    return OPTION_MAGIC + struct.pack(">II", number, len(data) if length is None else length) + data


def string(text):
    return struct.pack(">I", len(text)) + text


def go_data(name=b"", infos=()):
    return string(name) + struct.pack(f">H{len(infos)}H", len(infos), *infos)


def meta_data(*queries, name=b""):
    return string(name) + struct.pack(">I", len(queries)) + b"".join(map(string, queries))


def opening(form, name=b""):
    """The bytes that a client sends before its first request."""
    if form == SIMPLE:
        return FIXED + option(GO, go_data(name))
    return (FIXED + option(EXTENDED if form == EXTENDED_FORM else STRUCTURED) +
            option(SET_META, meta_data(b"base:allocation", name=name)) + option(GO, go_data(name)))


def request(form, kind, offset=0, length=0, flags=0, cookie=1, magic=None):
    """A request's header."""
    if form == EXTENDED_FORM:
        if kind == WRITE:
            flags ^= PAYLOAD_LEN
        return struct.pack(">IHHQQQ", magic or 0x21E41C71, flags, kind, cookie, offset, length)
    return struct.pack(">IHHQQI", magic or 0x25609513, flags, kind, cookie, offset, length)


class Raw:
    """A connection to a unix socket, or a TCP port of this machine (digits).

    `form`: of requests and replies; None: nothing is sent after connecting.  `name`: the export's.
    """

    def __init__(self, path, form=None, name=b"", seconds=TIMEOUT):
        self.form = form
        tcp = str(path).isdigit()
        self.socket = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(("127.0.0.1", int(path)) if tcp else path)
        if form:
            self.greeting()
            self.send(opening(form, name))
            while self.option_reply()[:2] != (GO, ACK):
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise EOFError(f"disconnected {length - len(data)} bytes too early")
            data += piece
        return data

    def until_end(self):
        """Returns all data that arrives until the server disconnects."""
        data = b""
        try:
            while piece := self.socket.recv(1 << 20):
                data += piece
        except ConnectionError:
            pass  # the server had not read all that was sent
        return data

    def greeting(self):
        greeting = self.receive(18)
        assert greeting == b"NBDMAGIC" + OPTION_MAGIC + b"\0\3", greeting

    def option_reply(self):
        magic, number, kind, length = struct.unpack(">QIII", self.receive(20))
        assert magic == OPTION_REPLY_MAGIC, hex(magic)
        return number, kind, self.receive(length)

    def request(self, kind, *arguments, **keywords):
        self.send(request(self.form, kind, *arguments, **keywords))

    def reply(self, length=0):
        """The cookie, the error and the data of one reply.

        A simple reply without error brings `length` bytes, or as many as the list `length` has at its cookie.
        """
        data = b""
        while True:
            magic, = struct.unpack(">I", self.receive(4))
            if magic == 0x67446698:
                assert self.form != EXTENDED_FORM
                error, cookie = struct.unpack(">IQ", self.receive(12))
                size = length[cookie] if isinstance(length, list) else length
                return cookie, error, b"" if error else self.receive(size)
            if self.form == EXTENDED_FORM:
                assert magic == 0x6E8A278C, hex(magic)
                flags, kind, cookie, _, size = struct.unpack(">HHQQQ", self.receive(28))
            else:
                assert magic == 0x668E33EF and self.form == STRUCTURED_FORM, hex(magic)
                flags, kind, cookie, size = struct.unpack(">HHQI", self.receive(16))
            payload = self.receive(size)
            if kind & 0x8000:
                assert flags & 1
                return cookie, struct.unpack(">I", payload[:4])[0], b""
            if kind == 1:
                data += payload[8:]
            elif kind == 2:
                data += bytes(struct.unpack(">I", payload[8:])[0])
            if flags & 1:
                return cookie, 0, data

    def reset(self):
        """Ends the connection at once, and discards data that is still to be sent."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
