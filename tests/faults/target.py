# SPDX-License-Identifier: BSD-3-Clause
"""A server that runs with faults, and what its end tells."""
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from load import PATIENCE

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.environ.get("top_builddir", os.path.join(HERE, "../..")))
PLUGIN = os.environ.get("LOOP_PLUGIN", os.path.join(TOP, "plugins/loop/nbdkit-loop-plugin.so"))
NBDLOOPD = os.path.join(TOP, "server/nbdloopd")
REWRITE, SOCKETS, OLD_RING, STALL, SYNC, EVENTS, BUSY = 1, 2, 4, 8, 16, 32, 64
COUNTS = ("short transfers", "errors", "transfers of nothing", "failed syncs", "failed receives", "failed sends",
          "failed submissions", "stalls", "refused features", "failed allocations", "failed accepts", "failed polls", "busy rings",
          "lost write-backs", "calls that waited", "slow writes")
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:|Assertion `|\*\*\* stack smashing|free\(\): ")
# A message that reports a problem.
COMPLAINT = re.compile(r"error|warning|failed|gave up|can't|cannot|refused|closed|ended", re.IGNORECASE)


class Shared:
    """The file that shared.h lays out."""
    LAYOUT = struct.Struct(f"=12I3Q{len(COUNTS)}Q")
    WORDS = ("armed", "seed", "rate", "what", "ring_flags", "ring_denies", "allocation", "ring_entries", "accept_error", "lost", "gate",
             "pace")
    INODE = 4 * len(WORDS)

    def __init__(self, path):
        with open(path, "wb+") as f:
            f.truncate(4096)
            self.memory = mmap.mmap(f.fileno(), 4096)
        self.set(rate=1)

    def set(self, **words):
        for name, value in words.items():
            struct.pack_into("=I", self.memory, 4 * self.WORDS.index(name), value)

    def watch(self, path):
        """Names the file whose calls slow.c delays."""
        struct.pack_into("=Q", self.memory, self.INODE, os.stat(path).st_ino)

    def counts(self):
        return dict(zip(COUNTS, self.LAYOUT.unpack_from(self.memory)[len(self.WORDS) + 3:]))

    def count(self, name):
        return self.counts()[name]

    def allocations(self):
        return self.LAYOUT.unpack_from(self.memory)[len(self.WORDS) + 2]


def in_memory(directory):
    """Whether the directory exists and is in memory."""
    found = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout
    return found.strip() == "tmpfs"


def sanitized():
    linked = subprocess.run(["ldd", NBDLOOPD], capture_output=True, text=True).stdout
    return "libasan" in linked or "libtsan" in linked


class Target:
    def __init__(self, directory, server, engine, pages, preload=None, wrapped=True):
        self.directory, self.server, self.engine = directory, server, engine
        self.socket, self.control = (os.path.join(directory, name) for name in ("sock", "control"))
        self.image, self.log = (os.path.join(directory, name) for name in ("disk.img", "server.log"))
        self.pid_file = os.path.join(directory, "pid")
        self.shared = Shared(os.path.join(directory, "shared"))
        self.findings = []
        self.preload, self.strace = preload, None
        self.pid = None
        options = [f"engine={engine}", *(["direct-io=on"] if pages == "direct" else ["direct-io=off", f"page-cache={pages}"])]
        if server == "nbdloopd":
            self.command = [NBDLOOPD, "-U", self.socket, "-P", self.pid_file, "--threads=2", "--control", self.control,
                            "--drain-limit=5", *("--" + option for option in options), self.image]
        else:
            nbdkit = os.path.join(TOP, "wrapper/nbdkit") if wrapped else shutil.which("nbdkit")
            self.command = [nbdkit, "-f", "-U", self.socket, "-P", self.pid_file, "-t", "8", PLUGIN, self.image,
                            f"control={self.control}", *options]

    def move_image(self, directory):
        """Moves the image to another directory, which holds files of others."""
        old, (fd, self.image) = self.image, tempfile.mkstemp(prefix="nbdloop-faults.", suffix=".img", dir=directory)
        os.close(fd)
        self.command = [self.image if word == old else word.replace("page-cache=drop", "page-cache=keep")
                        for word in self.command]

    def option(self, option):
        """Replaces the server's option of that name, or adds it."""
        name = option.split("=")[0]
        at = [i for i, word in enumerate(self.command) if word.split("=")[0] == name]
        self.command[at[0] if at else 1:at[0] + 1 if at else 1] = [option]

    def start(self):
        """Returns False if the server refused to start; a finding tells if it gave no reason."""
        environment = dict(os.environ, LC_ALL="C")
        command = self.command
        if self.strace is not None:
            command = ["strace", "-qq", "-f", "-o", os.path.join(self.directory, "trace"), *self.strace, *command]
            environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        if self.preload:
            environment.update(LD_PRELOAD=self.preload, FAULTS_SHARED=os.path.join(self.directory, "shared"),
                               ASAN_OPTIONS=environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                            start_new_session=True)
        end = time.monotonic() + 3 * PATIENCE
        while time.monotonic() < end:
            try:
                with open(self.pid_file) as f:
                    self.pid = int(f.read())
                return True
            except (OSError, ValueError):
                pass
            if self.process.poll() is not None:
                self.judge_end()
                if self.process.returncode and os.path.getsize(self.log) == 0:
                    self.findings.append(f"silence: it ended with status {self.process.returncode} at its start, without a word")
                return False
            time.sleep(0.01)
        self.findings.append("hang: it doesn't start")
        self.kill()
        return False

    def alive(self):
        return self.process.poll() is None

    def said(self):
        with open(self.log, errors="replace") as f:
            return [line for line in f if COMPLAINT.search(line)]

    def judge_end(self):
        status = self.process.returncode
        if status < 0 or status >= 128:
            self.findings.append(f"crash: status {status}")
        with open(self.log, errors="replace") as f:
            reports = [line for line in f if SANITIZER.search(line)]
        if reports:
            self.findings.append(f"crash: {reports[0].strip()}")

    def stop(self):
        if not self.alive():
            self.findings.append(f"it ended by itself with status {self.process.returncode}")
        else:
            os.kill(self.pid, signal.SIGTERM)
            try:
                self.process.wait(2 * PATIENCE)
            except subprocess.TimeoutExpired:
                self.findings.append("hang: SIGTERM does not end it")
                self.kill()
                return
        self.judge_end()

    def kill(self):
        """Its strace, too."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def injections_traced(self):
        try:
            with open(os.path.join(self.directory, "trace"), errors="replace") as f:
                return sum("(INJECTED)" in line for line in f)
        except OSError:
            return 0
