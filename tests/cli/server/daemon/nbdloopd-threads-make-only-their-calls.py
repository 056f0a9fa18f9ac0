# SPDX-License-Identifier: BSD-3-Clause
"""The calls that the filters of each thread of a running nbdloopd let through, beside a table.

Arguments: PID TABLE. The filters are the kernel's own copies (PTRACE_SECCOMP_GET_FILTER), and all
calls of the machine are followed through them, along each branch that asks about an argument.
"""

import ctypes
import errno
import os
import signal
import struct
import sys

CONT, SEIZE, INTERRUPT, DETACH, GET_FILTER, GET_MESSAGE = 7, 0x4206, 0x4207, 17, 0x420C, 0x4201
TRACE_CLONE, EVENT_CLONE, WALL = 8, 3, 0x40000000
AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, X32 = 0xC000003E, 0x40000003, 0x40000000
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


def is_filtered(thread):
    with open(f"/proc/{thread}/status") as status:
        return "\nSeccomp:\t2\n" in status.read()


def filters_of_stopped(thread):
    """The programs of its filters, as lists of (code, jt, jf, k)."""
    programs = []
    try:
        while is_filtered(thread):
            count = ptrace(GET_FILTER, thread, len(programs))
            code = ctypes.create_string_buffer(8 * count)
            ptrace(GET_FILTER, thread, len(programs), ctypes.addressof(code))
            programs.append(list(struct.iter_unpack("=HBBI", code.raw)))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EIO, errno.EACCES):
            print(f"the kernel shows nobody its filters ({error.strerror})", file=sys.stderr)
            sys.exit(77)
        if error.errno != errno.ENOENT:
            raise
    return programs


def filters_of(thread):
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        return filters_of_stopped(thread)
    finally:
        ptrace(DETACH, thread)


def filters_at_sighup(pid):
    """Of the thread that reads the configuration again, which ends soon: it is stopped at its start."""
    ptrace(SEIZE, pid, None, TRACE_CLONE)
    try:
        os.kill(pid, signal.SIGHUP)
        while True:
            _, status = os.waitpid(pid, WALL)
            if status >> 8 == signal.SIGTRAP | EVENT_CLONE << 8:
                break
            # It stopped for the signal, which is to arrive.
            ptrace(CONT, pid, None, os.WSTOPSIG(status) if status >> 16 == 0 else 0)
        thread = ctypes.c_ulong()
        ptrace(GET_MESSAGE, pid, None, ctypes.addressof(thread))
        os.waitpid(thread.value, WALL)
        try:
            return filters_of_stopped(thread.value)
        finally:
            ptrace(DETACH, thread.value)
    finally:
        ptrace(DETACH, pid)


def agrees(facts, fact):
    """Whether a fact about arguments, (word, mask, value, equal), can be true beside others."""
    word, mask, value, equal = fact
    for other_word, other_mask, other_value, other_equal in facts:
        if other_word != word:
            continue
        if other_equal and other_mask & mask == mask:
            if (other_value & mask == value) != equal:
                return False
        elif equal and mask & other_mask == other_mask:
            if (value & other_mask == other_value) != other_equal:
                return False
    return True


def results(program, call, machine, facts=(), at=0, loaded=0):
    """What a program of classic BPF can return for a call, with the facts about its arguments that
    lead there. What is loaded is a number, or the (word, mask) of an argument."""
    while True:
        code, if_true, if_false, k = program[at]
        at += 1
        if code == 0x20:  # load a word
            loaded = {0: call, 4: machine}.get(k, (k, 0xFFFFFFFF))
        elif code == 0x54:  # and
            loaded = loaded & k if isinstance(loaded, int) else (loaded[0], loaded[1] & k)
        elif code == 0x05:  # jump
            at += k
        elif code == 0x06:  # return
            yield k & 0xFFFF0000, facts
            return
        elif isinstance(loaded, int):
            holds = {0x15: loaded == k, 0x25: loaded > k, 0x35: loaded >= k, 0x45: bool(loaded & k)}[code]
            at += if_true if holds else if_false
        else:
            assert code == 0x15, "a comparison of arguments that this test does not know"
            for equal, jump in (True, if_true), (False, if_false):
                fact = *loaded, k, equal
                if agrees(facts, fact):
                    yield from results(program, call, machine, facts + (fact,), at + jump, loaded)
            return


def in_words(facts):
    """What must be equal: "0=1" is the first argument 1, "2&4=0" the third one without bit 4."""
    words = set()
    for word, mask, value, equal in facts:
        argument, upper_half = divmod(word - FIRST_ARGUMENT, 8)
        if equal and mask and not (upper_half and value == 0):
            words.add(f"{argument}{'' if mask == 0xFFFFFFFF else f'&{mask:x}'}={value:x}{'<<32' if upper_half else ''}")
    return "+".join(sorted(words)) or "yes"


def answer(programs, call, machine=AUDIT_ARCH_X86_64):
    """What becomes of a call: "yes", the arguments with which it is allowed, "kills", or "-". The
    strictest action of the filters happens."""
    if any(action == KILL_PROCESS for program in programs for action, _ in results(program, call, machine)):
        return "kills"
    ways = {()}
    for program in programs:
        ways = {facts for way in ways for action, facts in results(program, call, machine, way) if action == ALLOW}
    words = {in_words(facts) for facts in ways}
    return "yes" if "yes" in words else ",".join(sorted(words)) or "-"


def answers(programs):
    """The calls that do not simply fail, by their number."""
    for call in range(CALLS_MAX):
        assert answer(programs, call, AUDIT_ARCH_I386) == "kills", f"call {call} of i386"
        assert answer(programs, call | X32) == "kills", f"call {call} of x32"
    seen = {call: answer(programs, call) for call in range(CALLS_MAX)}
    return {call: result for call, result in seen.items() if result != "-"}


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
    process_names, names_seen = {"nbdloopd", "control", "changes"}, set()
    found = {}
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as comm:
                name = comm.read().strip()
            kind = "process" if name in process_names else name
            names_seen.add(name)
            if kind.startswith("iou-"):
                continue  # the kernel's own, for a ring
            programs = filters_of(thread)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        assert programs, f"the thread {kind} has no filter"
        seen = answers(programs)
        assert found.setdefault(kind, seen) == seen, f"two threads {kind} are under different filters"
    assert process_names <= names_seen, f"no threads {process_names - names_seen}"
    assert answers(filters_at_sighup(int(pid))) == found["process"], "the thread of SIGHUP is under other filters"
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
