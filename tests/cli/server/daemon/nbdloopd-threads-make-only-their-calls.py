# SPDX-License-Identifier: BSD-3-Clause
"""The calls that the filters of each thread of a running nbdloopd let through, beside a table.

Arguments: PID TABLE. The filters are the kernel's own copies (PTRACE_SECCOMP_GET_FILTER), and all
calls of the machine are tried in them, with the arguments that a filter asks about, and with others.
"""

import ctypes
import errno
import os
import struct
import sys

SEIZE, INTERRUPT, DETACH, GET_FILTER, WALL = 0x4206, 0x4207, 17, 0x420C, 0x40000000
AUDIT_ARCH_X86_64 = 0xC000003E
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
CALLS_MAX = 512
FIRST_ARGUMENT = 16  # its offset in struct seccomp_data
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, thread, address=None, data=None):
    result = libc.ptrace(request, thread, address, data)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def filters_of(thread):
    """The programs of its filters, as lists of (code, jt, jf, k)."""
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    programs = []
    try:
        while True:
            count = ptrace(GET_FILTER, thread, len(programs))
            code = ctypes.create_string_buffer(8 * count)
            ptrace(GET_FILTER, thread, len(programs), ctypes.addressof(code))
            programs.append(list(struct.iter_unpack("=HBBI", code.raw)))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EACCES):
            print(f"the kernel shows nobody its filters ({error.strerror})", file=sys.stderr)
            sys.exit(77)
        if error.errno != errno.ENOENT:
            raise
    finally:
        ptrace(DETACH, thread)
    return programs


def run(program, data):
    """What a program of classic BPF returns for a struct seccomp_data, and whether it has looked at
    an argument of the call."""
    accumulator = at = 0
    looked = False
    while True:
        code, if_true, if_false, k = program[at]
        at += 1
        if code == 0x20:  # load a word
            accumulator = struct.unpack_from("=I", data, k)[0]
            looked = looked or k >= FIRST_ARGUMENT
        elif code == 0x06:  # return
            return k & 0xFFFF0000, looked
        elif code == 0x05:  # jump
            at += k
        elif code == 0x54:  # and
            accumulator &= k
        else:
            holds = {0x15: accumulator == k, 0x25: accumulator > k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[code]
            at += if_true if holds else if_false


def answer(programs, call, value):
    """What becomes of a call whose arguments are all this value, and whether that hangs on them. The
    strictest action of the filters happens."""
    data = struct.pack("=iIQ6Q", call, AUDIT_ARCH_X86_64, 0, *(value,) * 6)
    results = [run(program, data) for program in programs]
    actions = {action for action, _ in results}
    looked = any(looks for _, looks in results)
    if KILL_PROCESS in actions:
        return "kills", looked
    return "yes" if actions == {ALLOW} else "-", looked


def answers(programs):
    """The calls that do not simply fail: by their number, "yes", "some" (by their arguments) or
    "kills"."""
    values = {0, 0xFFFFFFFF} | {k for program in programs for code, _, _, k in program if code in (0x15, 0x45, 0x54)}
    seen = {}
    for call in range(CALLS_MAX):
        result, looked = answer(programs, call, 0)
        if looked and len({answer(programs, call, value)[0] for value in values}) > 1:
            result = "some"
        if result != "-":
            seen[call] = result
    return seen


def names():
    """Of calls, by their numbers here."""
    found = {451: "cachestat"}  # newer than some headers
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h") as header:
        for line in header:
            words = line.split()
            if len(words) == 3 and words[1].startswith("__NR_"):
                found[int(words[2])] = words[1][len("__NR_"):]
    return found


def kinds(pid):
    """The answers of each kind of thread, by its name."""
    found = {}
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as comm:
                kind = comm.read().strip().replace("nbdloopd", "process")
            if kind.startswith("iou-"):
                continue  # the kernel's own, for a ring
            programs = filters_of(thread)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        assert programs, f"the thread {kind} has no filter"
        seen = answers(programs)
        assert found.setdefault(kind, seen) == seen, f"two threads {kind} are under different filters"
    return found


def main():
    pid, path = sys.argv[1:]
    with open(path) as table:
        rows = [line.split() for line in table if line.strip() and not line.startswith("#")]
    columns, wanted = rows[0][1:], {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows[1:]}
    seen, name_of = kinds(pid), names()
    wrong = [f"no thread {kind} runs" for kind in set(columns) - set(seen)]
    wrong += [f"the table has no thread {kind}" for kind in set(seen) - set(columns)]
    for kind in set(columns) & set(seen):
        for call in range(CALLS_MAX):
            name = name_of.get(call, str(call))
            want, have = wanted.get(name, {}).get(kind, "-"), seen[kind].get(call, "-")
            if want != have:
                wrong.append(f"{name} from the thread {kind}: {have}, not {want}")
    if wrong:
        raise SystemExit("\n".join(sorted(wrong)))


if __name__ == "__main__":
    main()
