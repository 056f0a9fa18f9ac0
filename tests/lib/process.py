# SPDX-License-Identifier: BSD-3-Clause
"""Facts about a process, from /proc/PID."""
import glob
import os


def _read(path):
    with open(path) as f:
        return f.read()


def _stat(pid):
    """The fields of stat from the third, the state, on."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def ticks(pid):
    """Processor time, in clock ticks."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12])


def page_faults(pid):
    return int(_stat(pid)[7])


def processor_time(pid):
    """Seconds of processor time of all threads that run now."""
    return sum(int(_read(path).split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def resident(pid):
    """KiB of memory."""
    return next(int(line.split()[1]) for line in _read(f"/proc/{pid}/status").splitlines() if line.startswith("VmRSS:"))


def threads(pid):
    return os.listdir(f"/proc/{pid}/task")


def is_traced(pid, thread):
    """Whether strace traces this thread."""
    return "TracerPid:\t0\n" not in _read(f"/proc/{pid}/task/{thread}/status")


def waits(pid):
    """By thread: how often it has waited for something (voluntary context switches)."""
    found = {}
    for thread in threads(pid):
        lines = _read(f"/proc/{pid}/task/{thread}/status").splitlines()
        found[thread] = next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
    return found


def unnamed_files(pid):
    """The open files of a process that have no name any more."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
    return {path for path in found if path.endswith("(deleted)")}
