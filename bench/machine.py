# SPDX-License-Identifier: BSD-3-Clause
"""The machine and its programs: what must be installed, and facts that explain the figures."""

import ctypes
import glob
import os
import platform
import re
import shutil
import subprocess

MIB = 1024 * 1024
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# By kind of server: its program, and the Debian package that has the program.
PEERS = (
    ("qemu-nbd", "qemu-nbd", "qemu-utils"),
    ("qemu-storage-daemon", "qemu-storage-daemon", "qemu-system-common"),
    ("nbd-server", "nbd-server", "nbd-server"),
    ("loop-device", "losetup", "mount"),
)


class MissingTool(Exception):
    """A missing program, with the Debian package that has it."""

    def __init__(self, message, package):
        super().__init__(f"{message} (Debian package: {package})")
        self.package = package


def output(command):
    """A command's output, or None if it can't be run or fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def missing_tools(servers):
    """The missing tools, as exceptions that are not raised yet."""
    missing = []
    for name, program, package in PEERS:
        if any(s.split(":")[0] == name for s in servers) and shutil.which(program) is None:
            missing.append(MissingTool(f"{program} is not installed", package))
    if shutil.which("fio") is None:
        missing.append(MissingTool("fio is not installed", "fio"))
    elif "nbd" not in (output(["fio", "--enghelp"]) or "").split():
        missing.append(MissingTool("this fio has no nbd engine; one built with libnbd is needed",
                                   "fio"))
    if shutil.which("nbdkit") is None:
        missing.append(MissingTool("nbdkit is not installed", "nbdkit"))
    elif output(["nbdkit", "--dump-plugin", "file"]) is None:
        missing.append(MissingTool("nbdkit is installed without its file plugin", "nbdkit"))
    return missing


def missing_c():
    if shutil.which(compiler()[0]) is None:
        return [MissingTool(f"{compiler()[0]} is not installed", "gcc")]
    return []


def missing_compiler():
    """The missing tools for building the bench's own plugin."""
    missing = missing_c()
    if shutil.which("pkg-config") is None:
        missing.append(MissingTool("pkg-config is not installed", "pkg-config"))
    elif output(["pkg-config", "--exists", "nbdkit"]) is None:
        missing.append(MissingTool("nbdkit's headers are not installed", "nbdkit-plugin-dev"))
    return missing


def missing_plotter():
    if shutil.which("gnuplot") is None:
        return [MissingTool("gnuplot is not installed", "gnuplot-nox")]
    return []


def bench_program_make(name):
    """Builds a program of bench/Makefile.am that `make' doesn't build; returns None, or the reason
    of a failure.
    """
    place = next((p for p in build_places() if os.path.exists(os.path.join(p, "bench/Makefile"))), None)
    if place is None:
        return "there is no build tree to build it in: run ./configure and make in the source tree"
    # If another make runs this program, its flags are not for this make.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "-C", os.path.join(place, "bench"), name], stdin=subprocess.DEVNULL, env=environment,
                          capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        return f"make -C bench {name} failed: {done.stderr.strip()[-400:]}"
    return None


def bench_program_find(name):
    paths = [os.path.abspath(os.path.join(p, "bench", name)) for p in build_places()]
    return next((path for path in paths if os.path.exists(path)), paths[-1])


def build_places():
    """Directories where this project may have been built: make's, the working directory, the source tree."""
    return [p for p in (os.environ.get("top_builddir"), ".", TOP) if p]


def compiler():
    """The words of $CC: there may be a wrapper before the compiler, and options after it."""
    return os.environ.get("CC", "").split() or ["cc"]


def program_compile(source, directory):
    """Compiles a C file; returns the path of the program."""
    path = os.path.join(directory, os.path.basename(source).removesuffix(".c"))
    _link(path, [source])
    return path


def load_compile(directory, tls=False):
    """Compiles load.c with its way to a server, plain or TLS; returns the path of the program."""
    path = os.path.join(directory, "load-tls" if tls else "load")
    sources = [os.path.join(TOP, "bench", name) for name in ("load.c", "wire_tls.c" if tls else "wire_plain.c")]
    _link(path, sources + (output(["pkg-config", "--cflags", "--libs", "gnutls"]) or "").split() if tls else sources)
    return path


def _link(path, words):
    subprocess.run([*compiler(), "-D_GNU_SOURCE", "-I", TOP, "-O2", "-pthread", "-o", path, *words], check=True,
                   stdin=subprocess.DEVNULL, stdout=2)


def library_compile(path, source, package, *flags):
    """Makes a shared library, with pkg-config's flags for a package; returns its path."""
    flags += tuple((output(["pkg-config", "--cflags", "--libs", package]) or "").split())
    subprocess.run([*compiler(), "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-o", path, source, *flags],
                   check=True, stdin=subprocess.DEVNULL, stdout=2)
    return path


def plugin_compile(source, directory):
    """Compiles a plugin; returns its path."""
    name = os.path.basename(source).removesuffix(".c")
    return library_compile(os.path.join(directory, f"nbdkit-{name}-plugin.so"), source, "nbdkit")


def packages_install(packages):
    command = ["apt-get", "install", "-y", "--no-install-recommends"] + sorted(set(packages))
    if os.geteuid() != 0:
        command.insert(0, "sudo")
    subprocess.run(command, check=True, stdout=2)


def dump_plugin(plugin):
    """The output of nbdkit --dump-plugin as a dict, or None if the plugin can't be loaded."""
    text = output(["nbdkit", "--dump-plugin", plugin])
    if text is None:
        return None
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def commit(plugin):
    """The commit of the source tree that holds the plugin; an installed plugin tells nothing about
    its source.
    """
    inside = os.path.realpath(plugin).startswith(os.path.realpath(TOP) + "/")
    if not inside or not os.path.exists(os.path.join(TOP, ".git")):
        return None
    name = output(["git", "-C", TOP, "rev-parse", "--short", "HEAD"])
    if name is None:
        return None
    changes = output(["git", "-C", TOP, "status", "--porcelain", "--untracked-files=no"])
    return f"built in a tree at commit {name}" + (" and uncommitted changes" if changes else "")


def processor():
    text = read("/proc/cpuinfo") or ""
    names = re.findall(r"^model name\s*:\s*(.*)", text, re.M)
    virtual = re.search(r"^flags\s*:.*\bhypervisor\b", text, re.M)
    name = names[0] if names else platform.machine()
    count = len(os.sched_getaffinity(0))
    return f"{count} x {name}" + (", in a virtual machine" if virtual else "")


def memory():
    total = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo") or "", re.M)
    text = f"{int(total[1]) * 1024 // MIB} MiB" if total else "unknown"
    if memory_is_reported_free():
        text += " (free pages are handed back to the hypervisor, so taking memory is dear: that slows page-cache growth)"
    return text


def memory_is_reported_free():
    """Does a virtio balloon (device 5) report free pages (feature bit 5)?"""
    for path in glob.glob("/sys/bus/virtio/devices/*/device"):
        features = read(os.path.join(os.path.dirname(path), "features")) or ""
        if int(read(path) or "0", 16) == 5 and features[5:6] == "1":
            return True
    return False


def system():
    release = read("/etc/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.M)
    version = read("/etc/debian_version")
    text = name[1] if name else "unknown"
    return f"{text} ({version})" if version and "Debian" in text else text


def libnbd():
    """The version of the library that fio's engine uses."""
    try:
        library = ctypes.CDLL("libnbd.so.0")
    except OSError:
        return "unknown"
    library.nbd_create.restype = ctypes.c_void_p
    library.nbd_get_version.restype = ctypes.c_char_p
    library.nbd_get_version.argtypes = library.nbd_close.argtypes = (ctypes.c_void_p,)
    handle = library.nbd_create()
    version = library.nbd_get_version(handle).decode()
    library.nbd_close(handle)
    return version


def mount_of(path):
    """The file system that holds a path, as (type, options)."""
    device = os.stat(path).st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    real = os.path.realpath(path)
    best = (-1, "unknown", "")
    for line in (read("/proc/self/mountinfo") or "").splitlines():
        left, right = line.split(" - ", 1)
        fields = left.split()
        point = fields[4].encode().decode("unicode_escape")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if fields[2] == numbers and inside and len(point) >= best[0]:
            kind, _, options = right.split(" ", 2)
            best = (len(point), kind, f"{fields[5]};{options}")
    return best[1], best[2]


def disk(path):
    """The block device of a file system, if it has a single one."""
    device = os.stat(path).st_dev
    node = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(node):
        return "no block device of its own"
    queue = os.path.join(node, "queue")
    if not os.path.exists(queue):      # a partition
        queue = os.path.join(node, "..", "queue")
    name = os.path.basename(os.path.realpath(node))
    scheduler = re.search(r"\[(.*?)\]", read(os.path.join(queue, "scheduler")) or "")
    facts = [
        name,
        f"rotational {read(os.path.join(queue, 'rotational'))}",
        f"{read(os.path.join(queue, 'logical_block_size'))}-byte blocks",
        f"write cache {read(os.path.join(queue, 'write_cache'))}",
        f"scheduler {scheduler[1] if scheduler else 'none'}",
        "with poll queues" if read(os.path.join(queue, "io_poll")) == "1" else "no poll queues",
    ]
    return ", ".join(facts)


def describe(directory, plugin, raw):
    """The facts as lines of a Markdown list."""
    kind, options = mount_of(directory)
    facts = dump_plugin(plugin) if plugin else None
    lines = [
        f"machine: {processor()}",
        f"memory: {memory()}",
        f"system: {system()}, Linux {platform.release()}",
        f"file system: {kind} ({options})",
        f"disk: {disk(directory)}",
        f"nbdkit: {(output(['nbdkit', '--version']) or 'unknown').removeprefix('nbdkit ')}",
        f"client: {output(['fio', '--version'])}, nbd engine, libnbd {libnbd()}"
        + (f"; raw: {raw} engine, O_DIRECT" if raw else ""),
    ]
    if facts is not None:
        version = facts.get("loop_version", facts.get("version", "unknown"))
        lines.append(", ".join(filter(None, [f"plugin: {version}", commit(plugin)])))
    return lines


class CpuTotals:
    """Busy CPU seconds and context switches of the whole machine, including kernel threads."""

    def __init__(self):
        text = read("/proc/stat")
        fields = [int(n) for n in text.splitlines()[0].split()[1:9]]
        tick = os.sysconf("SC_CLK_TCK")
        user, nice, kernel, idle, iowait, irq, softirq, steal = fields
        self.busy = (user + nice + kernel + irq + softirq) / tick
        self.steal = steal / tick
        self.total = (sum(fields)) / tick
        self.switches = int(re.search(r"^ctxt (\d+)", text, re.M)[1])


def warnings(directory):
    kind, _ = mount_of(directory)
    if kind in ("tmpfs", "ramfs"):
        yield (f"{kind} is memory, not a disk: the figures say nothing about direct I/O "
               f"(--directory chooses another place)")
    elif kind == "overlay":
        yield "the image is on an overlay file system: the figures include its cost"
