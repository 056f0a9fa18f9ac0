# SPDX-License-Identifier: BSD-3-Clause
"""The servers that are compared, and what one run costs each of them.

A server is written KIND[:KEY=VALUE]..., where KIND is
    loop        the plugin of this project (plugin=FILE takes another build of it)
    nbdloopd    the native server of this project (program=FILE takes another build)
    nbdloopd-unmerged  the same, built for the bench so that it merges no requests
    file        nbdkit's own file plugin
    preadv      preadv.c, the least that a direct-I/O plugin can do
    qemu-nbd    QEMU's server, on io_uring and past the page cache
    qemu-storage-daemon  QEMU's other one, in the same way
    nbd-server  the reference implementation, with flush, FUA and trim on, and 64 threads instead of 4
    memory      nbdkit's memory plugin: data in its own memory
    null        nbdkit's null plugin: no data at all
    loop-device the kernel's loop driver (direct-io=off: without direct I/O), and fio on the device
    raw         no server: fio on the image itself, with O_DIRECT
and every other KEY=VALUE is handed to the plugin, or as --KEY=VALUE to the program; threads=N is nbdkit's -t.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import time

import machine

ALIASES = {"file-none": "file:cache=none", "qemu-nbd-native": "qemu-nbd:aio=native"}
DEFAULT = "loop,nbdloopd,file,file-none,preadv,raw"
PLUGINS = ("loop", "file", "preadv", "memory", "null")
MEMORIES = ("memory", "null")           # as large as the image, although they don't read it
OURS = ("nbdloopd", "nbdloopd-unmerged")
PROGRAMS = OURS + ("qemu-nbd", "qemu-storage-daemon", "nbd-server")
DAEMONS = ("nbd-server",)               # fork a process for each client
DEVICES = ("loop-device", "raw")        # without a server's process
BUILT = {"loop": "plugins/loop/nbdkit-loop-plugin.so", "nbdloopd": "server/nbdloopd",
         "nbdloopd-unmerged": "bench/nbdloopd-unmerged"}
CHOSEN = {"loop": "LOOP_PLUGIN", "nbdloopd": "NBDLOOPD"}
QEMU = {"cache": "none", "aio": "io_uring"}
PR_SET_CHILD_SUBREAPER = 36


class ServerError(Exception):
    pass


def built_find(kind):
    """The program that the user chose, else the one built in the working directory or in this tree."""
    if os.environ.get(CHOSEN.get(kind, "")):
        return os.path.abspath(os.environ[CHOSEN[kind]])
    for place in machine.build_places():
        path = os.path.join(place, BUILT[kind])
        if os.path.exists(path):
            return os.path.abspath(path)
    return os.path.join(machine.TOP, BUILT[kind])


def parameter_fits(kind, parameter):
    key, _, value = parameter.partition("=")
    if kind == "loop-device":
        return parameter in ("direct-io=on", "direct-io=off")
    if key == "threads":
        return kind in PLUGINS and value.isdecimal() and int(value) > 0
    if kind == "qemu-storage-daemon":
        return key == "aio" and value != ""
    return value != "" and kind not in ("preadv", "nbd-server") + MEMORIES + DEVICES


class Server:
    """A server to start. `label` is its name in tables, as the user wrote it."""

    patience = 20       # seconds that its start, and its end, may take

    def __init__(self, text, programs, plugin_args):
        """`programs`: the plugin or the program of each kind."""
        self.label = text
        name, colon, rest = text.partition(":")
        kind, *parameters = (ALIASES.get(name, name) + colon + rest).split(":")
        if kind not in PLUGINS + PROGRAMS + DEVICES:
            raise ServerError(f"unknown server '{text}' ({', '.join(PLUGINS + PROGRAMS + DEVICES)}, file-none, "
                              f"or KIND:KEY=VALUE:...)")
        for parameter in parameters:
            if not parameter_fits(kind, parameter):
                raise ServerError(f"server '{text}': '{parameter}' cannot be given to it (KEY=VALUE for loop, file, "
                                  f"nbdloopd and qemu-nbd, threads=N for nbdkit's, aio=HOW for qemu-storage-daemon, "
                                  f"direct-io=on|off for loop-device)")
        self.kind = kind
        builds = [p.split("=", 1)[1] for p in parameters if p.startswith(("plugin=", "program="))]
        self.program = builds[-1] if builds else programs.get(kind)
        self.threads = next((p.split("=", 1)[1] for p in parameters if p.startswith("threads=")), None)
        self.parameters = [p for p in parameters if not p.startswith(("plugin=", "program=", "threads="))]
        if kind == "loop":
            # The server's own parameter replaces the one of --plugin-args: nbdkit would pass both,
            # and the plugin takes the last one, or refuses.
            keys = {p.split("=", 1)[0] for p in self.parameters}
            self.parameters = [a for a in plugin_args if a.split("=", 1)[0] not in keys] + self.parameters

    def command(self, image, directory, threads):
        """How it is started, in the foreground: server.sock in the directory is its socket, server.pid is
        written when it can be connected to."""
        sock, pidfile = (os.path.join(directory, f"server.{end}") for end in ("sock", "pid"))
        options = [f"--{p}" for p in self.parameters]
        if self.kind in PLUGINS:
            count = self.threads or threads
            start = ["nbdkit", "-f", "--exit-with-parent", "-U", sock, "-P", pidfile]
            start += ["-t", str(count)] if count is not None else []
            if self.kind in MEMORIES:
                return start + [self.kind, "size=" + str(os.path.getsize(image))]
            return start + [self.program, image] + self.parameters
        if self.kind in OURS:
            return [self.program, "-U", sock, "-P", pidfile] + options + [image]
        how = QEMU | dict(p.split("=", 1) for p in self.parameters)
        if self.kind == "qemu-nbd":
            return ["qemu-nbd", "--format=raw", "--persistent", "--shared=16", "--discard=unmap", f"--socket={sock}",
                    f"--pid-file={pidfile}"] + [f"--{key}={value}" for key, value in how.items()] + [image]
        if self.kind == "qemu-storage-daemon":
            node = f"driver=file,node-name=disk,filename={image},cache.direct=on,aio={how['aio']},discard=unmap"
            return ["qemu-storage-daemon", "--blockdev", node, "--pidfile", pidfile,
                    "--nbd-server", f"addr.type=unix,addr.path={sock},max-connections=16",
                    "--export", "type=nbd,id=disk,node-name=disk,name=,writable=on"]
        return ["nbd-server", "-C", self._configuration(image, directory, sock), "-p", pidfile]

    @staticmethod
    def _configuration(image, directory, sock):
        path = os.path.join(directory, "server.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"[generic]\nunixsock = {sock}\nmax_threads = 64\n"
                    f"[disk]\nexportname = {image}\nflush = true\nfua = true\ntrim = true\nrotational = false\n")
        return path

    @property
    def export(self):
        """The export's name: nbd-server has no export without one."""
        return "disk" if self.kind == "nbd-server" else ""

    def unavailable(self):
        """The reason why it can't be measured on this machine, if that can be told without starting
        it; else None.
        """
        if self.kind == "loop" and machine.dump_plugin(self.program) is None:
            return f"nbdkit cannot load {self.program}: build it with make, or set LOOP_PLUGIN"
        if self.kind in OURS and machine.output([self.program, "--version"]) is None:
            hint = ", or set NBDLOOPD" if self.kind == "nbdloopd" else ""
            return f"{self.program} cannot be run: build it with make{hint}"
        for kind, program, package in machine.PEERS:
            if self.kind == kind and shutil.which(program) is None:
                return f"{program} is not installed (Debian package: {package})"
        if self.kind == "loop-device" and not os.access("/dev/loop-control", os.R_OK | os.W_OK):
            return "loop devices need root, and /dev/loop-control"
        return None

    def describe(self):
        if self.kind == "raw":
            return "fio on the image itself, O_DIRECT"
        if self.kind == "loop-device":
            return f"losetup --{self.parameters[0] if self.parameters else 'direct-io=on'}, fio on the device, O_DIRECT"
        if self.kind in MEMORIES:
            return f"nbdkit {self.kind}"
        if self.kind == "nbd-server":
            return "nbd-server with max_threads = 64, flush = true, fua = true, trim = true, rotational = false"
        # The paths of its files tell nothing.
        words = self.command("disk.img", "", None)
        words = [os.path.basename(words[0])] + [w for w in words[1:] if "server." not in w or w.startswith("addr.")]
        if self.kind in PLUGINS:
            count = ["-t", self.threads] if self.threads else []
            words = ["nbdkit"] + count + [os.path.basename(self.program), "disk.img"] + self.parameters
        return " ".join(w for w in words if w not in ("-U", "-P", "--pidfile"))


class Running:
    """A server process, started for one run: its cost is then that run's."""

    def __init__(self, server, image, directory, threads):
        self.server = server
        self.socket = os.path.join(directory, "server.sock")
        self.log = os.path.join(directory, "server.log")
        pidfile = os.path.join(directory, "server.pid")
        for path in (self.socket, pidfile):
            if os.path.lexists(path):
                os.unlink(path)
        command = server.command(image.path, directory, threads)
        if server.kind in DAEMONS:
            # So that this process gets the end and the usage of the server's child.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
        # The bench doesn't connect to find out: a connection would add to the measured cost.
        end = time.monotonic() + self.server.patience
        while not (os.path.exists(pidfile) and os.path.getsize(pidfile) > 0):
            if self._reap(os.WNOHANG) is not None and (self.server.kind not in DAEMONS or self.process.returncode != 0):
                raise ServerError(f"{self.server.describe()}: did not start:\n{self.said()}")
            if time.monotonic() > end:
                raise ServerError(f"{self.server.describe()}: not ready after "
                                  f"{self.server.patience} s:\n{self.said()}")
            time.sleep(0.01)
        with open(pidfile, encoding="ascii") as f:
            pid = int(f.read())
        if self.server.kind in DAEMONS:
            self._adopt(pid)
        elif pid != self.pid:
            raise ServerError(f"{self.server.describe()}: runs as process {pid}, not by "
                              f"exec as {self.pid}: its CPU time cannot be measured")

    def _adopt(self, pid):
        """The first process has ended; its child is now a child of this process."""
        while self.process.returncode is None:
            self._reap(0)
        self.process.returncode = None
        self.pid = pid

    @property
    def uri(self):
        return f"nbd+unix:///{self.server.export}?socket={self.socket}"

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read().strip()

    def errors(self):
        return [line for line in self.said().splitlines() if re.search(r"\berror:", line)]

    def cpu_seconds(self):
        """The exact CPU time of the process, with all threads, also those that have ended.

        /proc/PID/stat counts ticks; the process's CPU clock counts nanoseconds. The clock's number
        is computed from the PID, as clock_getcpuclockid(3) does.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    def live_switches(self):
        """Context switches of the current threads, as (voluntary, involuntary)."""
        counts = [0, 0]
        for task in os.listdir(f"/proc/{self.pid}/task"):
            text = machine.read(f"/proc/{self.pid}/task/{task}/status")
            if text is None:        # it has just ended
                continue
            counts[0] += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
            counts[1] += int(re.search(r"^nonvoluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
        return counts

    def memory(self, field):
        """Bytes of VmRSS (now) or VmHWM (its peak)."""
        match = re.search(rf"^{field}:\s+(\d+) kB", machine.read(f"/proc/{self.pid}/status") or "", re.M)
        if match is None:
            raise ServerError(f"{self.server.describe()}: has ended by itself:\n{self.said()}")
        return int(match[1]) * 1024

    def disk_bytes(self):
        """The bytes that the process caused to be read from and written to disks, including read-ahead."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as f:
            text = f.read()
        return (int(re.search(r"^read_bytes: (\d+)", text, re.M)[1]),
                int(re.search(r"^write_bytes: (\d+)", text, re.M)[1]))

    def quiesce(self):
        """Waits until the server rests: the end of a closed connection's threads has a cost, too.

        It looks at the CPU clock and doesn't count threads, because a server may keep some. A
        server that polls never rests, so the wait is short.
        """
        before = None
        for _ in range(15):
            now = self.cpu_seconds()
            if now == before:
                break
            before = now
            time.sleep(0.02)

    def _reap(self, flags):
        if self.process.returncode is not None:
            return None
        pid, status, usage = os.wait4(self.pid, flags)
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage

    def stop(self):
        """Ends the server; returns the usage of its whole life."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + self.server.patience
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
    """The cost of a server between begin() and end(), and its memory since begin(); nothing if
    there is no server.
    """

    def __init__(self, running, image):
        self.running = running
        self.image = image
        self.rss = running.memory("VmRSS") if running is not None else 0     # before the first request

    def begin(self):
        self.cached = self.image.cached()
        self.meminfo = meminfo()
        if self.running is not None:
            self.switches = self.running.live_switches()
            self.disk = self.running.disk_bytes()
            self.cpu = self.running.cpu_seconds()

    def end(self):
        """Also stops the server: only its end tells all of its context switches."""
        spent = {}
        if self.running is not None:
            self.running.quiesce()
            spent["server_cpu_s"] = self.running.cpu_seconds() - self.cpu
            disk = self.running.disk_bytes()
            spent["disk_read"] = disk[0] - self.disk[0]
            spent["disk_written"] = disk[1] - self.disk[1]
            spent["rss_growth"] = self.running.memory("VmHWM") - self.rss
        spent["cache_growth"] = self.image.cached() - self.cached
        after = meminfo()
        spent["meminfo_cached_growth"] = after["Cached"] - self.meminfo["Cached"]
        spent["meminfo_buffers_growth"] = after["Buffers"] - self.meminfo["Buffers"]
        if self.running is not None:
            daemon = self.running.server.kind in DAEMONS
            if daemon:
                # The usage has its whole life, and the processes that served and have ended. Its
                # own part is taken off: nbd-server's first process serves nothing, but was seen to
                # spend up to 0.9 s, at random, while the first connection is set up, before any
                # I/O.
                self.cpu = self.running.cpu_seconds()
                self.switches = self.running.live_switches()
            usage = self.running.stop()
            spent["switches_voluntary"] = usage.ru_nvcsw - self.switches[0]
            spent["switches_involuntary"] = usage.ru_nivcsw - self.switches[1]
            if daemon:
                spent["server_cpu_s"] = usage.ru_utime + usage.ru_stime - self.cpu
                spent["rss_growth"] = usage.ru_maxrss * 1024 - self.rss
            errors = self.running.errors()
            if errors:
                raise ServerError(f"{self.running.server.describe()}: reported:\n"
                                  + "\n".join(errors[:5]))
        return spent


def meminfo():
    """What /proc/meminfo says of the page cache, in bytes."""
    with open("/proc/meminfo", encoding="ascii") as f:
        text = f.read()
    return {name: int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M)[1]) * 1024 for name in ("Cached", "Buffers")}


class LoopDevice:
    """The kernel's loop driver on the image; its path is the device's."""

    def __init__(self, server, image):
        option = server.parameters[-1] if server.parameters else "direct-io=on"
        done = subprocess.run(["losetup", "--find", "--show", f"--{option}", image.path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerError(f"losetup failed: {done.stderr.strip()}")
        self.path = done.stdout.strip()
        # losetup succeeds without direct I/O, in silence, where the kernel refuses it.
        wanted = "1" if option == "direct-io=on" else "0"
        name = f"/sys/block/{os.path.basename(self.path)}/loop/dio"
        found = machine.read(name)
        if found != wanted:
            self.remove()
            raise ServerError(f"losetup --{option}: {name} is {found} instead of {wanted}")

    def remove(self):
        subprocess.run(["losetup", "--detach", self.path], check=True, stdin=subprocess.DEVNULL)
