# SPDX-License-Identifier: BSD-3-Clause
"""A server whose instructions callgrind counts, and the requests for which it counts them.

The requests come in the same order, and each batch arrives at once: with patience.c, the server's
event loop then makes the same turns in every run, whatever else the machine does.
"""

import dataclasses
import glob
import mmap
import os
import struct
import sys
import time

import callgrind
import machine
import server as server_module

TESTS_LIB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "lib")
sys.path.append(TESTS_LIB)
import raw_nbd                      # noqa: E402

BLOCK = 4096
HOLES = 32 << 20                    # bytes of the image's first part, which is read; its holes need no disk
DATA = 16 << 20                     # bytes of the second part, which is written; its blocks are allocated already
STRIDE = 7 * BLOCK                  # distance between requests that a server can't merge
PATIENCE_SECONDS = 120              # for a busy machine, and for valgrind
# A unix socket's buffer takes up to 32 KiB in one piece; larger messages may arrive in parts.
READ_BATCH, WRITE_BATCH = 32, 8


class CountError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Load:
    """`requests` of one kind, sent in batches of `batch`, each request `stride` bytes after the one
    before.
    """
    kind: int
    batch: int
    stride: int
    requests: int


LOADS = {
    "read-alone": Load(raw_nbd.READ, 1, STRIDE, 64),
    "read-batch": Load(raw_nbd.READ, READ_BATCH, STRIDE, 512),
    "read-merged": Load(raw_nbd.READ, READ_BATCH, BLOCK, 512),
    "write-alone": Load(raw_nbd.WRITE, 1, STRIDE, 64),
    "write-batch": Load(raw_nbd.WRITE, WRITE_BATCH, STRIDE, 256),
    "write-merged": Load(raw_nbd.WRITE, WRITE_BATCH, BLOCK, 256),
}


class Image:
    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "disk.img")
        with open(self.path, "wb") as f:
            f.seek(HOLES)
            f.write(os.urandom(DATA))
            os.fsync(f.fileno())


class Page:
    """The memory that the bench shares with patience.c, which explains it."""

    ORDERS, DONE, IDLE = range(3)

    def __init__(self, path: str) -> None:
        with open(path, "w+b") as f:
            f.truncate(mmap.PAGESIZE)
            # This view reads and writes whole words, which struct doesn't promise.
            self.words = memoryview(mmap.mmap(f.fileno(), mmap.PAGESIZE)).cast("I")

    def wait(self, what: str, word: int, value: int) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.words[word] != value:
            if time.monotonic() > end:
                raise CountError(f"waited {PATIENCE_SECONDS} s in vain until {what}")
            time.sleep(0.0002)

    def dump(self) -> None:
        """Has the server write its counts to a file, and reset them."""
        order = self.words[self.ORDERS] + 1
        self.words[self.ORDERS] = order
        self.wait("the server has written its counts", self.DONE, order)

    def wait_idle(self) -> None:
        self.wait("the server's event loop rests", self.IDLE, 1)


def program_find(name: str) -> str:
    """The first program in PATH that is no script, such as the build tree's wrapper: valgrind would
    count the shell.
    """
    for directory in os.get_exec_path():
        path = os.path.join(directory, name)    # `name` itself if it is a path
        if os.access(path, os.X_OK):
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    return path
    raise CountError(f"there is no program {name} in PATH")


class Counted(server_module.Server):
    """A server, written as for bench/compare; it is started under callgrind."""

    patience = PATIENCE_SECONDS

    def __init__(self, text: str, directory: str, waits: str) -> None:
        super().__init__(text, {kind: server_module.built_find(kind) for kind in server_module.BUILT}, [])
        self.waits = waits
        self.page_path = os.path.join(directory, "page")
        self.profile_path = os.path.join(directory, "callgrind")

    def command(self, image: str, directory: str, threads: int | None) -> list[str]:
        words = super().command(image, directory, threads)
        words[0] = program_find(words[0])
        if self.kind == "nbdloopd":
            words[1:1] = ["--threads=1"]
        return ["env", f"LD_PRELOAD={self.waits}", f"PATIENCE={self.page_path}",
                "valgrind", "-q", "--tool=callgrind", "--vgdb=no", f"--callgrind-out-file={self.profile_path}"] + words


class Session:
    """A running server, with one connection."""

    def __init__(self, counted: Counted, image: Image, directory: str) -> None:
        self.counted = counted
        self.page = Page(counted.page_path)
        for path in glob.glob(counted.profile_path + "*"):
            os.unlink(path)
        self.running = server_module.Running(counted, image, directory, None)
        try:
            self.connection = raw_nbd.Raw(self.running.socket, raw_nbd.SIMPLE)
            self.connection.socket.settimeout(PATIENCE_SECONDS)
            self._warm_up()
        except BaseException as e:
            self.running.kill()
            if isinstance(e, (OSError, EOFError, AssertionError)):
                raise CountError(f"{counted.label}: no answer: {e}:\n{self.running.said()}") from None
            raise

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            if kind is None:
                self.connection.request(raw_nbd.DISC)
                self.connection.socket.close()
                self.running.stop()
        finally:
            self.running.kill()

    def _warm_up(self) -> None:
        """Serves until all threads exist and have made what they make on demand."""
        for name in ("read-batch", "write-batch"):
            self.serve(LOADS[name], LOADS[name].requests)

    def serve(self, load: Load, requests: int) -> None:
        writes = load.kind == raw_nbd.WRITE
        start, length = (HOLES, DATA) if writes else (0, HOLES)
        replies = load.batch * (16 + (0 if writes else BLOCK))
        for first in range(0, requests, load.batch):
            message = b""
            for number in range(first, first + load.batch):
                offset = start + number * load.stride % length
                message += raw_nbd.request(raw_nbd.SIMPLE, load.kind, offset, BLOCK, cookie=number)
                message += bytes(BLOCK) if writes else b""
            # Otherwise, an event loop that still works would find the end of the last batch and
            # this one together.
            self._rest()
            if self.connection.socket.send(message) != len(message):
                raise CountError("a batch does not fit into the socket")
            try:
                self._check(self.connection.receive(replies), replies // load.batch)
            except (OSError, EOFError) as e:
                raise CountError(f"{self.counted.label}: {e}:\n{self.running.said()}") from None

    def _rest(self) -> None:
        if self.counted.kind == "nbdloopd":
            self.page.wait_idle()

    def _check(self, answer: bytes, length: int) -> None:
        for at in range(0, len(answer), length):
            magic, error = struct.unpack_from(">II", answer, at)
            if magic != 0x67446698 or error:
                raise CountError(f"{self.counted.label}: a request failed (error {error}):\n{self.running.said()}")

    def _profile(self) -> callgrind.Profile:
        self._rest()
        self.page.dump()
        paths = glob.glob(self.counted.profile_path + ".*")
        if len(paths) != 1:
            raise CountError(f"callgrind wrote {len(paths)} files, not one:\n{self.running.said()}")
        profile = callgrind.Profile(paths[0])
        os.unlink(paths[0])
        return profile

    def _count_once(self, load: Load) -> callgrind.Profile:
        """The cost of twice as many requests minus the cost of once as many: the cost of a
        connection, and the counted part of waits, are in both.
        """
        self.serve(load, load.requests)
        once = self._profile()
        self.serve(load, 2 * load.requests)
        twice = self._profile()
        twice.own.subtract(once.own)
        return twice

    def count(self, load: Load) -> callgrind.Profile:
        """The instructions of `load.requests` requests.

        The median of three counts: one of thirty counts of nbdkit's threads lacked a few
        instructions of each request.
        """
        # Discards the counts so far; CALLGRIND_ZERO_STATS would leave some of them (3.19).
        self.serve(load, load.requests)
        self._profile()
        return sorted((self._count_once(load) for _ in range(3)), key=callgrind.Profile.total)[1]


def waits_compile(directory: str) -> str:
    """Compiles patience.c; returns the path of the library."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "patience.c")
    return machine.library_compile(os.path.join(directory, "patience.so"), source, "liburing", "-Wall", "-Wextra")
