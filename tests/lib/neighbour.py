# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of hostile clients compare: an honest client beside them, and what the server has.

The honest client uses the first half of an export of 128 MiB or more.  Its data must be right, and no request of its
may take longer than PATIENCE.
"""
import mmap
import os
import random
import signal
import sys
import time

import nbd

PATIENCE = 10  # seconds
BLOCK = 4096
MIB = 1 << 20


class Neighbour:
    """The honest client, a process of its own, on a libnbd handle that `connect()` makes."""

    def __init__(self, connect):
        self.connect = connect
        # Requests done so far, and the longest one's microseconds.
        self.shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self.child = os.fork()
        if self.child == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                self.run()
            except Exception as error:
                print(f"the honest client: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)

    def run(self):
        handle = self.connect()
        handle.set_strict_mode(handle.get_strict_mode() & ~nbd.STRICT_ALIGN)
        model = bytearray(random.randbytes(4 * MIB))
        handle.pwrite(bytes(model[:2 * MIB]), 0)
        handle.pwrite(bytes(model[2 * MIB:]), 2 * MIB)
        while signal.SIGTERM not in signal.sigpending():
            length = random.randint(1, 4 * BLOCK)
            offset = random.randrange(len(model) - length)
            start = time.monotonic()
            if random.random() < 0.5:
                model[offset:offset + length] = data = random.randbytes(length)
                handle.pwrite(data, offset)
            elif handle.pread(length, offset) != model[offset:offset + length]:
                raise ValueError(f"wrong data at {offset}")
            self.shared[1] = max(self.shared[1], int((time.monotonic() - start) * 1e6))
            self.shared[0] += 1
        if handle.pread(len(model), 0) != model:
            raise ValueError("wrong data at the end")

    def check(self, beside):
        """It gets on, beside whatever is done to the server now."""
        goal, end = self.shared[0] + 5, time.monotonic() + PATIENCE
        while self.shared[0] < goal:
            assert os.waitpid(self.child, os.WNOHANG) == (0, 0), f"the honest client failed beside {beside}"
            assert time.monotonic() < end, f"the honest client stands still beside {beside}"
            time.sleep(0.01)

    def end(self):
        os.kill(self.child, signal.SIGTERM)
        assert os.waitpid(self.child, 0)[1] == 0, "the honest client failed"
        assert self.shared[1] < PATIENCE * 1e6, f"the honest client waited {self.shared[1]} us"


class Belongings:
    """What a server has before and after: descriptors, and memory (data, bytes).

    `limit`: of the memory that it may use for requests.
    """

    def __init__(self, pid, limit):
        self.pid, self.limit = pid, limit
        self.before, self.used = self.descriptors(), self.memory()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024

    def memory_is_measured(self):
        """Sanitizers and valgrind have memory of their own, and keep what is freed."""
        with open(f"/proc/{self.pid}/maps") as f:
            maps = f.read()
        return not any(word in maps for word in ("libasan", "libtsan", "libclang_rt", "vgpreload"))

    def check(self):
        end = time.monotonic() + PATIENCE
        while self.descriptors() > self.before and time.monotonic() < end:
            time.sleep(0.05)
        assert self.descriptors() == self.before, f"{self.before} descriptors, then {self.descriptors()}"
        # Besides, the first MiB of each connection that found all of it taken.
        print(f"{self.used} bytes of memory before, {self.memory()} after")
        assert self.memory() < self.used + self.limit + 20 * MIB or not self.memory_is_measured(), \
            f"{self.used} bytes of memory, then {self.memory()}"
