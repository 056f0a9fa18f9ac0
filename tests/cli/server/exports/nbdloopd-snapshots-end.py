# SPDX-License-Identifier: BSD-3-Clause
"""How snapshots end, and what is refused, while clients read them.

    PROGRAM SOCKET CONTROL IMAGE LOG PID
"""
import os
import sys

import nbd

from client import connect, is_over, wait_for_end
from control import Control, ask
from process import unnamed_files
from waiting import FACTOR, wait_until

socket, control_socket, image, log, pid = sys.argv[1:]
control = Control(control_socket)
disk = connect(socket, "disk")
SIZE = disk.get_size()


def names():
    return [export["name"] for export in control.status()["exports"]]


def snapshot_of(name):
    return next(export["snapshot"] for export in control.status()["exports"] if export["name"] == name)


def refuses(request, words):
    answer = ask(control_socket, request).decode()
    assert '"error"' in answer and words in answer, (request, answer)


def fails_to_read(h, offset=0):
    try:
        h.pread(4096, offset)
    except nbd.Error as error:
        return error.errno
    raise AssertionError("a broken snapshot can be read")


# A server with one export and its snapshots needs no names: they mean the export.
old = disk.pread(SIZE, 0)
answer = control.ask("snapshot first")
assert answer["snapshot"] == {"of": "disk", "method": "copy", "expires_in": 0, "granularity": 4096, "scratch_bytes": 0,
                              "scratch_size": 0, "broken": ""}, answer["snapshot"]
assert "uri" not in answer, "this server listens somewhere"
assert control.ask("resize")["name"] == "disk"
assert connect(socket, "").get_size() == SIZE
assert "snapshot" not in control.export()
disk.pwrite(b"n" * 4096, 0)
assert snapshot_of("first")["scratch_bytes"] == 4096
first = connect(socket, "first")
assert first.pread(4096, 0) == old[:4096]

# It is read-only, has the rules of its export, and no snapshots of its own.
try:
    first.pwrite(b"x" * 512, 0)
    raise AssertionError("a snapshot can be written to")
except nbd.Error as error:
    assert error.errno == "EPERM", error
refuses("snapshot first", "there is one of that name already")
refuses("snapshot disk", "there is one of that name already")
refuses("snapshot second export=first", "is a snapshot itself")
refuses("snapshot second export=none", "no such export")
refuses("snapshot", "must be")
refuses("snapshot second colour=blue", "must be")
refuses("snapshot second expire=0", "must be")
refuses("snapshot second scratch=/nowhere/at/all", "scratch=DIR names another directory")
assert names() == ["disk", "first"]
control.ask(f"set allow=uid:{os.getuid()} export=disk")
assert next(e for e in control.status()["exports"] if e["name"] == "first")["allow"] == f"uid:{os.getuid()}"
control.ask("set allow=any export=disk")

# A full scratch file breaks its snapshot, with words, and nothing else.
control.ask("snapshot small scratch-size=64K")
small = connect(socket, "small")
disk.pwrite(b"o" * 65536, 1 << 20)
assert small.pread(65536, 1 << 20) == old[1 << 20:(1 << 20) + 65536]
assert snapshot_of("small")["broken"] == ""
disk.pwrite(b"p" * 4096, 2 << 20)
disk.flush()
assert disk.pread(4096, 2 << 20) == b"p" * 4096
assert "scratch-size=65536" in snapshot_of("small")["broken"], snapshot_of("small")
assert fails_to_read(small) == "EIO" and fails_to_read(small, 1 << 20) == "EIO"
assert "snapshot small: broken: " in open(log).read()
assert first.pread(65536, 1 << 20) == old[1 << 20:(1 << 20) + 65536]

# Removal disconnects who reads it, and nobody else.
control.ask("remove export=small")
wait_for_end(small)
assert names() == ["disk", "first"]

# A file that has become longer changes nothing, nor has one that has become shorter any bytes left.
with open(image, "r+b") as f:
    f.truncate(SIZE + (1 << 20))
assert control.ask("resize export=disk")["size"] == SIZE + (1 << 20)
late = connect(socket, "disk")
late.pwrite(b"q" * 4096, SIZE)
assert connect(socket, "first").get_size() == SIZE
assert first.pread(4096, SIZE - 4096) == old[-4096:]
with open(image, "r+b") as f:
    f.truncate(SIZE)
control.ask("resize export=disk")
assert first.pread(4096, SIZE - 4096) == old[-4096:]

# The time of a snapshot ends, also while it is read.
answer = control.ask(f"snapshot short expire={3 * FACTOR}")
assert answer["snapshot"]["expires_in"] <= 3 * FACTOR, answer
short = connect(socket, "short")
wait_for_end(short)
wait_until("the snapshot is gone", lambda: names() == ["disk", "first"], seen=names)
control.ask("snapshot short expire=1000")
assert 900 < snapshot_of("short")["expires_in"] <= 1000
control.ask("remove export=short")

# Snapshots end with their export.
control.ask("snapshot last")
last = connect(socket, "last")
wait_until("only these two have files", lambda: len(unnamed_files(pid)) == 2, seen=lambda: unnamed_files(pid))
control.ask("remove export=disk")
wait_for_end(last)
wait_for_end(first)
assert not is_over(disk), "clients of a removed export stay"
disk.pwrite(b"r" * 4096, 0)
assert names() == []
wait_until("their space is free", lambda: not unnamed_files(pid), seen=lambda: unnamed_files(pid))
