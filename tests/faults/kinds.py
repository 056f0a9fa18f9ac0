# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of faults: how a server is started for each, what happens to it under load, and how
often a fault was injected.
"""
import errno
import json
import os
import re
import socket
import threading
import time

from kind import Kind
from load import PATIENCE
from model import IMAGE
from neighbours import Long, Memory, Slow, Trickle
from target import BUSY, EVENTS, OLD_RING, REWRITE, SOCKETS, STALL, SYNC

# IORING_SETUP_COOP_TASKRUN, SINGLE_ISSUER, DEFER_TASKRUN, TASKRUN_FLAG: an older kernel lacks more
# of them
OLD_FLAGS = (1 << 13, 1 << 12 | 1 << 13, 1 << 8 | 1 << 9 | 1 << 12 | 1 << 13)


class Rewrite(Kind):
    library = "rewrite"
    vanish = 0.01

    def prepare(self, target):
        if self.server == "nbdkit":
            self.vanish = 0.0  # see Vanish
        rate = self.random.choice((4, 10, 30))
        sockets = SOCKETS if self.server == "nbdloopd" and self.random.random() < 0.5 else 0
        what = self.random.choice((REWRITE | sockets, REWRITE | SYNC | sockets, SYNC))
        if what == SYNC:
            self.vanish = 0.0  # the client must be there to get the error
        self.what = f"what {what}, rate {rate}"
        target.shared.set(seed=self.random.getrandbits(32), rate=rate, what=what)

    def begin(self, target):
        target.shared.set(armed=1)


class Kernels(Kind):
    """Rings of older kernels, which lack features in all combinations; the load is the usual one."""
    library = "rewrite"
    engines = ("io_uring",)
    harmless = True

    def prepare(self, target):
        flags = self.random.choice(OLD_FLAGS)
        denies = self.random.randrange(8) if self.random.random() < 0.8 else self.random.choice((8, 16))
        self.what = f"without flags {flags:#x}, {denies}"
        if denies >= 8:
            # A server with engine=io_uring would refuse to start.
            target.option("--engine=auto" if self.server == "nbdloopd" else "engine=auto")
        target.shared.set(armed=1, what=OLD_RING, ring_flags=flags, ring_denies=denies)


class Busy(Kind):
    """Small rings, whose kernel accepts no requests until completions have been taken from them."""
    library = "rewrite"
    engines = ("io_uring",)
    harmless = True

    def prepare(self, target):
        rate = self.random.choice((1, 2, 5))
        entries = self.random.choice((1, 2, 8))
        self.what = f"{entries} entries, rate {rate}"
        target.shared.set(armed=1, seed=self.random.getrandbits(32), rate=rate, what=BUSY, ring_entries=entries)

    def reached(self, target, load):
        return target.shared.count("busy rings")


class Events(Kind):
    """Now and then, an event loop can't wait for a descriptor."""
    library = "rewrite"
    servers = ("nbdloopd",)
    harmless = True
    told = True

    def prepare(self, target):
        rate = self.random.choice((2, 3, 10))
        # From the start of the server, or only when it serves.
        armed = self.random.choice((1, 1, 0))
        self.what = f"rate {rate}, {armed}"
        target.shared.set(armed=armed, seed=self.random.getrandbits(32), rate=rate, what=EVENTS)

    def begin(self, target):
        target.shared.set(armed=1)


class Accept(Kind):
    """For a while, waiting connections can't be accepted, for various reasons."""
    library = "rewrite"
    harmless = True
    told = True
    ERRORS = (errno.EPERM, errno.EACCES, errno.ENOSR, errno.ENOBUFS, errno.EMFILE, errno.EPROTO, errno.ECONNABORTED, errno.EINTR)

    def begin(self, target):
        self.target, self.stopped = target, False
        self.thread = threading.Thread(target=self.act)
        self.thread.start()

    def end(self, target):
        self.stopped = True
        self.thread.join()

    def act(self):
        while not self.stopped and self.target.alive():
            self.refuse(self.random.choice(self.ERRORS))
            time.sleep(0.1)

    def refuse(self, error):
        shared = self.target.shared
        before, begin = shared.count("failed accepts"), time.monotonic()
        shared.set(accept_error=error)
        sockets = []
        try:
            for path in self.target.socket, self.target.control:
                sockets.append(socket.socket(socket.AF_UNIX))
                sockets[-1].connect(path)
            time.sleep(0.5)
        finally:
            shared.set(accept_error=0)
            for s in sockets:
                s.close()
        calls, seconds = shared.count("failed accepts") - before, time.monotonic() - begin
        # The server may try ten times a second for each of the two sockets.
        if calls > 2 * (10 * seconds + 3):
            self.target.findings.append(f"{calls} calls of accept() in {seconds:.1f} s that failed with {errno.errorcode[error]}")


class Lost(Kind):
    """A write-back fails, and the kernel reports that to another process: no flush and no FUA write
    may succeed any more.
    """
    library = "rewrite"
    told = True
    AFTER = 0.5  # seconds

    def begin(self, target):
        self.timer = threading.Timer(self.AFTER, self.lose, (target,))
        self.timer.start()

    def lose(self, target):
        target.shared.set(lost=1)
        self.load.lost_since = time.monotonic()

    def end(self, target):
        self.timer.join()


class Vanish(Kind):
    """Clients vanish, while event loops stand still now and then, and writes fail late.

    Not with nbdkit, which then ends at an assertion of its own (1.32.5: raw_send_socket).
    """
    library = "rewrite"
    servers = ("nbdloopd",)
    vanish = 0.3

    def prepare(self, target):
        rate = self.random.choice((2, 5, 10))
        what = self.random.choice((STALL, REWRITE, STALL | REWRITE))
        self.what = f"what {what}, rate {rate}"
        target.shared.set(seed=self.random.getrandbits(32), rate=rate, what=what)

    def begin(self, target):
        target.shared.set(armed=1)

    def reached(self, target, load):
        return load.vanished


class Alloc(Kind):
    library = "alloc"
    counted = {}  # number of allocations until the server served, by server and engine

    def prepare(self, target):
        shared = target.shared
        known = self.counted.get((self.server, self.engine))
        rate = self.random.choice((1, 3, 10, 100))
        shared.set(seed=self.random.getrandbits(32), rate=rate)
        self.what = f"one in {rate}"
        if known and self.random.random() < 0.6:
            number = self.random.randint(1, known + known // 2)
            self.what = f"number {number}"
            shared.set(allocation=number)

    def begin(self, target):
        self.counted.setdefault((self.server, self.engine), target.shared.allocations())
        target.shared.set(armed=1)


# The errors with which a call may fail; a call that matches no other pattern fails with those of
# the last.
ERRORS = (
    (r"accept4?", ("EMFILE", "ENFILE", "ECONNABORTED", "ENOBUFS", "EPERM", "EINTR")),
    (r"io_uring_enter", ("EAGAIN", "EBUSY", "EINTR", "ENOMEM")),
    (r"io_uring_setup", ("ENOMEM", "EPERM", "ENOSYS", "EINVAL")),
    (r"io_uring_register", ("EINVAL", "ENOMEM")),
    (r"io_submit|io_getevents", ("EAGAIN", "EINTR")),
    (r"io_setup", ("EAGAIN", "ENOMEM", "ENOSYS")),
    (r"pread64|preadv2?|pwrite64|pwritev2?|fdatasync|fallocate", ("EIO", "ENOSPC", "EINTR")),
    (r"recvfrom|sendmsg|sendto|recvmsg", ("ENOBUFS", "ENOMEM", "EINTR")),
    (r"epoll_wait|poll|ppoll", ("EINTR", "ENOMEM")),
    (r"epoll_ctl", ("ENOMEM", "ENOSPC")),
    (r"clone3?", ("EAGAIN",)),
    (r"mmap|munmap|madvise|brk|mprotect", ("ENOMEM",)),
    (r".*", ("EIO", "EINVAL", "EPERM", "ENOMEM", "EMFILE", "EINTR")),
)
# Calls of the dynamic loader, calls after whose failure the C library aborts, and calls that can't
# fail, such as write() to an eventfd.
NOT_TRIED = re.compile(r"exec.*|exit.*|futex|rt_sig.*|arch_prctl|set_tid_address|set_robust_list|rseq|brk|getpid|gettid|clone3|"
                       r"get.id|gete.id|write|munmap|madvise|sched_yield|restart_syscall|sched_getaffinity|mprotect|access|prlimit64|clock_nanosleep")


# The calls that fail in nbdkit: those of the plugin. When some of its own calls fail, nbdkit ends
# or hangs.
PLUGINS = re.compile(r"io_.*|pread.*|pwrite.*|fdatasync|fallocate|fadvise64|eventfd2|statx|sync_file_range|ioctl")


class Syscalls(Kind):
    traced = {}  # the most calls of each kind by one thread, by server and engine
    loaded = {}  # mmap() calls of the dynamic loader, which crashes when its first one fails

    def prepare(self, target):
        known = self.traced.get((self.server, self.engine))
        if not known:
            target.strace = []
        else:
            call = self.random.choice(sorted(known))
            first = 1 + (self.loaded[self.server, self.engine] if call == "mmap" else 0)
            number = self.random.randint(first, max(first, min(known[call], self.random.choice((3, 30, 1000)))))
            errors = next(errors for pattern, errors in ERRORS if re.fullmatch(pattern, call))
            how = f"{call}:error={self.random.choice(errors)}:when={number}{self.random.choice(('', '', '+'))}"
            # A call fails once; a call after whose failure the server still serves may also fail
            # each time from then on.
            if how.endswith("+") and not re.fullmatch(r"io_uring_register|io_setup|io_uring_setup|pwrite64|pread64|fdatasync", call):
                how = how[:-1]
            self.what = f"strace -f -e inject={how}"
            target.strace = ["-e", f"trace={call}", "-e", f"inject={how}"]

    def end(self, target):
        pass

    def reached(self, target, load):
        if target.strace:
            return target.injections_traced()
        counts, loader, mapped = {}, True, 0
        with open(os.path.join(target.directory, "trace"), errors="replace") as f:
            for line in f:
                # With its last munmap(), the dynamic loader returns the list of libraries.
                loader = loader and " munmap(" not in line
                mapped += loader and " mmap(" in line
                found = re.match(r"(\d+) +(\w+)\(", line)
                if found and not NOT_TRIED.fullmatch(found[2]) and (self.server == "nbdloopd" or PLUGINS.fullmatch(found[2])):
                    counts.setdefault(found[2], {}).setdefault(found[1], 0)
                    counts[found[2]][found[1]] += 1
        self.loaded[self.server, self.engine] = mapped
        self.traced[self.server, self.engine] = {call: max(of.values()) for call, of in counts.items()}
        return 0


class Control(Kind):
    """Changes on the control socket, and invalid requests."""
    harmless = True

    def begin(self, target):
        self.done, self.stopped = 0, False
        self.target = target
        self.second = os.path.join(target.directory, "second.img")
        with open(self.second, "wb") as f:
            f.truncate(1 << 20)
        self.thread = threading.Thread(target=self.chaos)
        self.thread.start()

    def end(self, target):
        self.stopped = True
        self.thread.join()

    def reached(self, target, load):
        return self.done

    def chaos(self):
        random = self.random
        add = [f"add second={self.second}", "remove export=second", "set direct-io=on export=second"]
        while not self.stopped and self.target.alive():
            name = " export=" if self.server == "nbdloopd" else ""
            asked = random.choice(["status", "set direct-io=on" + name, "set direct-io=off" + name, "resize" + name,
                                   "x" * random.randrange(1, 5000), "", "set direct-io=", "status\nresize"] +
                                  (add if self.server == "nbdloopd" else []))
            if asked.startswith("resize"):
                os.truncate(self.target.image, IMAGE + 4096 * random.randrange(1, 1000))
            try:
                self.ask(asked, random.random() < 0.1)
            except TimeoutError:
                self.target.findings.append(f"hang: no answer of the control socket to {asked[:60]!r}")
                return
            except (OSError, ValueError) as error:
                if self.target.alive() and not isinstance(error, (BrokenPipeError, ConnectionResetError)):
                    self.target.findings.append(f"the control socket's answer to {asked[:60]!r}: {error}")
                    return
            time.sleep(random.uniform(0, 0.03))

    def ask(self, asked, vanish):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.target.control)
            s.sendall(asked.encode() + b"\n")
            if vanish:
                return
            answer = b""
            while not answer.endswith(b"\n"):
                piece = s.recv(1 << 16)
                if not piece:
                    break
                answer += piece
        if answer and "error" not in json.loads(answer.split(b"\n")[0]):
            self.done += 1


KINDS = {"rewrite": Rewrite, "syscalls": Syscalls, "alloc": Alloc, "kernels": Kernels, "control": Control, "vanish": Vanish, "lost": Lost,
         "busy": Busy, "events": Events, "accept": Accept, "slow": Slow, "long": Long, "memory": Memory, "trickle": Trickle}
