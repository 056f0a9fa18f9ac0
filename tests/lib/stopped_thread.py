# SPDX-License-Identifier: BSD-3-Clause
"""Stops one thread of a process, as if it hung, while the others go on.

    with stopped_thread(TID): ...

    PROGRAM TID     stops it until this program ends; prints a line when it stands still
"""
import contextlib
import ctypes
import os
import signal
import sys

_SEIZE, _INTERRUPT, _DETACH, _WALL = 0x4206, 0x4207, 17, 0x40000000  # linux/ptrace.h, linux/wait.h
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace of thread {thread}")


@contextlib.contextmanager
def stopped_thread(thread):
    _ptrace(_SEIZE, thread)
    _ptrace(_INTERRUPT, thread)
    os.waitpid(thread, _WALL)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it may have been killed meanwhile
            _ptrace(_DETACH, thread)


if __name__ == "__main__":
    with stopped_thread(int(sys.argv[1])):
        print("stopped", flush=True)
        signal.pause()
