# SPDX-License-Identifier: BSD-3-Clause
"""What each checkpoint of two exports says is at least what has changed since.

    PROGRAM SOCKET CONTROL EXTENDED(yes|no) EXPORT...
"""
import json
import random
import sys

import nbd

from client import take
from control import ask

MIB = 1 << 20
SIZE = 16 * MIB
path, control, extended, *names = sys.argv[1:]
random.seed(18)


def open_export(name, *contexts):
    h = nbd.NBD()
    if hasattr(h, "set_request_extended_headers"):
        h.set_request_extended_headers(extended == "yes")
    h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
    h.set_export_name(name)
    for context in contexts:
        h.add_meta_context(context)
    h.connect_unix(path)
    return h


def request(line):
    answer = json.loads(ask(control, line))
    assert "error" not in answer, (line, answer)
    return answer


def bitmap(checkpoint):
    return "qemu:dirty-bitmap:" + checkpoint


def changed(name, checkpoint):
    """The bytes that the checkpoint calls changed: a list of (start, end)."""
    h = open_export(name, nbd.CONTEXT_BASE_ALLOCATION, bitmap(checkpoint))
    assert h.can_meta_context(bitmap(checkpoint)), checkpoint
    at, found = 0, []
    while at < SIZE:
        ends, seen = {}, set()

        def note(context, offset, entries, error):
            seen.add(context)
            for length, flags in zip(entries[::2], entries[1::2]):
                if context == bitmap(checkpoint):
                    assert flags in (0, 1), flags
                    if flags:
                        found.append((offset, offset + length))
                offset += length
            ends[context] = offset
            return 0

        h.block_status(SIZE - at, at, note)
        assert seen == {nbd.CONTEXT_BASE_ALLOCATION, bitmap(checkpoint)}, seen
        at = ends[bitmap(checkpoint)]
    h.shutdown()
    return found


def change_at_random(handles):
    """Requests of several connections, in flight at once, that do not overlap."""
    for slot in random.sample(range(256), 24):
        h = random.choice(handles)
        offset = slot * 65536 + random.randrange(0, 65536 - 20480)
        length = random.choice((1, 512, 4096, 4097, 20000))
        kind = random.randrange(3)
        if kind == 0:
            h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(random.randbytes(length))), offset)
        elif kind == 1:
            h.aio_zero(length, offset)
        else:
            h.aio_trim(length, offset)
    for h in handles:
        take(h)


writers = {name: [open_export(name) for _ in range(3)] for name in names}
copies = []  # a checkpoint, and the contents of each export when it was made
for i in range(6):
    for name in names:
        change_at_random(writers[name])
    checkpoint = f"c{i}"
    request(f"checkpoint create {checkpoint} granularity={('4k', '64k', '1M')[i % 3]}")
    copies.append((checkpoint, {name: writers[name][0].pread(SIZE, 0) for name in names}))
for name in names:
    change_at_random(writers[name])

for checkpoint, then in copies:
    for name in names:
        now = writers[name][0].pread(SIZE, 0)
        copy = bytearray(then[name])
        parts = changed(name, checkpoint)
        for start, end in parts:
            copy[start:end] = now[start:end]
        assert copy == now, f"{checkpoint} of {name} misses a change"
        assert parts, f"{checkpoint} of {name} has seen no change"
# And not simply all of it: at most the last 24 changes, each in one or two granules of 1 MiB.
last = sum(end - start for start, end in changed(names[0], "c4"))
assert last <= 48 * 2 * 65536, last

# Listed.
h = nbd.NBD()
h.set_opt_mode(True)
h.set_export_name(names[0])
h.connect_unix(path)
listed = []
h.add_meta_context("qemu:")
h.opt_list_meta_context(lambda context: listed.append(context) or 0)
h.opt_abort()
assert listed == [bitmap(c) for c, _ in copies], listed
for e in json.loads(ask(control, "status"))["exports"]:
    assert [c["name"] for c in e["checkpoints"]] == [c for c, _ in copies], e["checkpoints"]
    assert e["checkpoints"][1]["granularity"] == 65536 and e["checkpoints"][1]["begun"] > 1500000000, e["checkpoints"]

# One that is deleted can't be selected. Who has selected it is told so.
reader = open_export(names[0], bitmap("c0"))
request(f"checkpoint delete c0 export={names[0]}")
request(f"checkpoint create c0 export={names[0]}")
try:
    reader.block_status(SIZE, 0, lambda *_: 0)
    assert False, "a deleted checkpoint still answers"
except nbd.Error as e:
    assert e.errnum == 22, e
assert changed(names[0], "c0") == [], "the new checkpoint has old changes"
request("checkpoint delete c0")
assert not open_export(names[0], bitmap("c0")).can_meta_context(bitmap("c0"))

# All exports, or none; a snapshot does not change.
request(f"snapshot copy export={names[0]}")
request(f"checkpoint create one export={names[1]}")
for line, part in (("checkpoint create one", "already"), ("checkpoint delete c0", "no checkpoint c0"),
                   ("checkpoint create a granularity=3k", "power of 2"), ("checkpoint create a granularity=x", "granularity"),
                   ("checkpoint create a export=none", "no such export"),
                   ("checkpoint create a export=copy", "snapshot"), ("checkpoint create a/b", "letters")):
    answer = json.loads(ask(control, line))
    assert part in answer.get("error", ""), (line, answer)
assert not open_export(names[0], bitmap("one")).can_meta_context(bitmap("one"))
ask(control, "resize export=copy")
ask(control, "set direct-io=off export=copy")
request("checkpoint create both")
assert [c["name"] for e in json.loads(ask(control, "status"))["exports"] for c in e["checkpoints"]].count("both") == 2
request("remove export=copy")
