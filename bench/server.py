# SPDX-License-Identifier: BSD-3-Clause
"""The servers that are compared, and what one run costs each of them.

A server is written KIND[:KEY=VALUE]..., where KIND is
    loop        the plugin of this project (plugin=FILE takes another build of it)
    nbdloopd    the native server of this project (program=FILE takes another build)
    file        nbdkit's own file plugin
    preadv      preadv.c, the least that a direct-I/O plugin can do
    qemu-nbd    QEMU's server, on io_uring and past the page cache
    memory      nbdkit's memory plugin: data in its own memory
    null        nbdkit's null plugin: no data at all
    loop-device the kernel's loop driver with direct I/O, and fio on the device
    raw         no server: fio on the image itself, with O_DIRECT
and every other KEY=VALUE is handed to the plugin, or as --KEY=VALUE to the program.
"""

import os
import re
import signal
import subprocess
import time

ALIASES = {"file-none": "file:cache=none"}
DEFAULT = "loop,nbdloopd,file,file-none,preadv,raw"
PLUGINS = ("loop", "file", "preadv", "memory", "null")
MEMORIES = ("memory", "null")           # as large as the image, which they don't read
PROGRAMS = ("nbdloopd", "qemu-nbd")
DEVICES = ("loop-device", "raw")        # without a server's process
BUILT = {"loop": "plugins/loop/.libs/nbdkit-loop-plugin.so", "nbdloopd": "server/nbdloopd"}
CHOSEN = {"loop": "LOOP_PLUGIN", "nbdloopd": "NBDLOOPD"}
START_SECONDS = 20
STOP_SECONDS = 20


class ServerError(Exception):
    pass


def built_find(kind):
    """What the user chose, else what is built in the working directory or here."""
    if CHOSEN[kind] in os.environ:
        return os.path.abspath(os.environ[CHOSEN[kind]])
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (".", top):
        path = os.path.join(place, BUILT[kind])
        if os.path.exists(path):
            return os.path.abspath(path)
    return os.path.join(top, BUILT[kind])


class Server:
    """What to start. `label` is the name in tables, as the user wrote it."""

    def __init__(self, text, programs, plugin_args):
        """`programs` says what each kind runs: a plugin, or a program."""
        self.label = text
        kind, *parameters = ALIASES.get(text, text).split(":")
        if kind not in PLUGINS + PROGRAMS + DEVICES:
            raise ServerError(f"unknown server '{text}' ({', '.join(PLUGINS + PROGRAMS + DEVICES)}, file-none, "
                              f"or KIND:KEY=VALUE:...)")
        for parameter in parameters:
            if "=" not in parameter or kind in ("preadv",) + MEMORIES + DEVICES:
                raise ServerError(f"server '{text}': '{parameter}' cannot be given to it "
                                  f"(KEY=VALUE for loop, file, nbdloopd and qemu-nbd only)")
        self.kind = kind
        builds = [p.split("=", 1)[1] for p in parameters if p.startswith(("plugin=", "program="))]
        self.program = builds[-1] if builds else programs.get(kind)
        self.parameters = [p for p in parameters if not p.startswith(("plugin=", "program="))]
        if kind == "loop":
            # A parameter of the server itself wins over --plugin-args: nbdkit
            # would take both, and the plugin the last or none.
            keys = {p.split("=", 1)[0] for p in self.parameters}
            self.parameters = [a for a in plugin_args if a.split("=", 1)[0] not in keys] + self.parameters

    def command(self, image, directory, threads):
        """How it is started, in the foreground: server.sock in the directory is its socket, server.pid is
        written when it can be connected to."""
        sock, pidfile = (os.path.join(directory, f"server.{end}") for end in ("sock", "pid"))
        options = [f"--{p}" for p in self.parameters]
        if self.kind in PLUGINS:
            count = ["-t", str(threads)] if threads is not None else []
            start = ["nbdkit", "-f", "--exit-with-parent", "-U", sock, "-P", pidfile] + count
            if self.kind in MEMORIES:
                return start + [self.kind, "size=" + str(os.path.getsize(image))]
            return start + [self.program, image] + self.parameters
        if self.kind == "nbdloopd":
            return [self.program, "-U", sock, "-P", pidfile] + options + [image]
        return [self.program, "--format=raw", "--persistent", "--shared=8", "--cache=none", "--aio=io_uring",
                "--discard=unmap", f"--socket={sock}", f"--pid-file={pidfile}"] + options + [image]

    def describe(self):
        if self.kind == "raw":
            return "fio on the image itself, O_DIRECT"
        if self.kind == "loop-device":
            return "losetup --direct-io=on, fio on the device, O_DIRECT"
        if self.kind in MEMORIES:
            return f"nbdkit {self.kind}"
        # Where its files are says nothing.
        words = self.command("disk.img", "", None)
        words = [os.path.basename(words[0])] + [w for w in words[1:] if "server." not in w]
        if self.kind in PLUGINS:
            words = ["nbdkit", os.path.basename(self.program), "disk.img"] + self.parameters
        return " ".join(w for w in words if w not in ("-U", "-P"))


class Running:
    """One server process: started for one run, so that what it cost is that run's."""

    def __init__(self, server, image, directory, threads):
        self.server = server
        self.socket = os.path.join(directory, "server.sock")
        self.log = os.path.join(directory, "server.log")
        pidfile = os.path.join(directory, "server.pid")
        for path in (self.socket, pidfile):
            if os.path.lexists(path):
                os.unlink(path)
        command = server.command(image.path, directory, threads)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        self.pid = self.process.pid
        try:
            self._await(pidfile)
        except BaseException:
            self.kill()
            raise

    def _await(self, pidfile):
        # Not by connecting: a connection would cost what is to be measured.
        end = time.monotonic() + START_SECONDS
        while not (os.path.exists(pidfile) and os.path.getsize(pidfile) > 0):
            if self._reap(os.WNOHANG) is not None:
                raise ServerError(f"{self.server.describe()}: did not start:\n{self.said()}")
            if time.monotonic() > end:
                raise ServerError(f"{self.server.describe()}: not ready after "
                                  f"{START_SECONDS} s:\n{self.said()}")
            time.sleep(0.01)
        with open(pidfile, encoding="ascii") as f:
            pid = int(f.read())
        if pid != self.pid:
            raise ServerError(f"{self.server.describe()}: runs as process {pid}, not by "
                              f"exec as {self.pid}: its CPU time cannot be measured")

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self.socket}"

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read().strip()

    def errors(self):
        return [line for line in self.said().splitlines() if re.search(r"\berror:", line)]

    def cpu_seconds(self):
        """Exact CPU time of the process: all threads, those that have ended included.

        /proc/PID/stat counts ticks; the process's CPU clock counts nanoseconds.
        The clock id is the one that clock_getcpuclockid(3) makes of a pid.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    def live_switches(self):
        """Context switches of the threads alive now, (voluntary, involuntary)."""
        counts = [0, 0]
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/status", encoding="ascii") as f:
                text = f.read()
            counts[0] += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
            counts[1] += int(re.search(r"^nonvoluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
        return counts

    def memory(self, field):
        """Bytes of VmRSS (now) or VmHWM (its peak)."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"^{field}:\s+(\d+) kB", f.read(), re.M)[1]) * 1024

    def disk_bytes(self):
        """What the process had read from and written to disks, read-ahead included."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as f:
            text = f.read()
        return (int(re.search(r"^read_bytes: (\d+)", text, re.M)[1]),
                int(re.search(r"^write_bytes: (\d+)", text, re.M)[1]))

    def quiesce(self):
        """Wait until the server rests: the threads of closed connections end, and that counts too.

        By its clock, not by counting threads: a server may keep some. One that
        polls never rests, and should not pay long for that.
        """
        before = None
        for _ in range(15):
            now = self.cpu_seconds()
            if now == before:
                break
            before = now
            time.sleep(0.02)

    def _reap(self, flags):
        pid, status, usage = os.wait4(self.pid, flags)
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage

    def stop(self):
        """End the server; returns the rusage of its whole life."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while (usage := self._reap(os.WNOHANG)) is None:
            if time.monotonic() > end:
                raise ServerError(f"{self.server.describe()}: does not end on SIGTERM:\n"
                                  f"{self.said()}")
            time.sleep(0.01)
        if self.process.returncode not in (0, -signal.SIGTERM):
            raise ServerError(f"{self.server.describe()}: ended with status "
                              f"{self.process.returncode}:\n{self.said()}")
        return usage

    def kill(self):
        if self.process.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap(0)


class Meter:
    """What a server spends between begin() and end(). Without a server: nothing."""

    def __init__(self, running, image):
        self.running = running
        self.image = image

    def begin(self):
        self.cached = self.image.cached()
        self.meminfo = meminfo_cached()
        if self.running is not None:
            self.rss = self.running.memory("VmRSS")
            self.switches = self.running.live_switches()
            self.disk = self.running.disk_bytes()
            self.cpu = self.running.cpu_seconds()

    def end(self):
        """Stops the server too: only its end tells all of its context switches."""
        spent = {}
        if self.running is not None:
            self.running.quiesce()
            spent["server_cpu_s"] = self.running.cpu_seconds() - self.cpu
            disk = self.running.disk_bytes()
            spent["disk_read"] = disk[0] - self.disk[0]
            spent["disk_written"] = disk[1] - self.disk[1]
            spent["rss_growth"] = self.running.memory("VmHWM") - self.rss
        spent["cache_growth"] = self.image.cached() - self.cached
        spent["meminfo_cached_growth"] = meminfo_cached() - self.meminfo
        if self.running is not None:
            usage = self.running.stop()
            spent["switches_voluntary"] = usage.ru_nvcsw - self.switches[0]
            spent["switches_involuntary"] = usage.ru_nivcsw - self.switches[1]
            errors = self.running.errors()
            if errors:
                raise ServerError(f"{self.running.server.describe()}: reported:\n"
                                  + "\n".join(errors[:5]))
        return spent


def meminfo_cached():
    with open("/proc/meminfo", encoding="ascii") as f:
        return int(re.search(r"^Cached:\s+(\d+) kB", f.read(), re.M)[1]) * 1024


class LoopDevice:
    """The kernel's loop driver on the image; its path is the device's."""

    def __init__(self, image):
        done = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", image.path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerError(f"losetup failed: {done.stderr.strip()}")
        self.path = done.stdout.strip()

    def remove(self):
        subprocess.run(["losetup", "--detach", self.path], check=True, stdin=subprocess.DEVNULL)
