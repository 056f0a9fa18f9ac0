# SPDX-License-Identifier: BSD-3-Clause
"""Requests that overlap each other, under way at the same time on several connections, to an image
of which a snapshot is held.

    nbdloopd-snapshots-leave-overlapping-writes-in-order.py SOCKET CONTROL IMAGE SECONDS SEED

Each byte that is read is one that a write may have left there by then; at the end, the image's
file is compared, too.  The snapshot's bytes stay as they were.
"""
import hashlib
import os
import random
import sys
import time

sys.path.append(os.path.join(os.environ["PYTHONPATH"], "../faults"))

from client import connect  # noqa: E402
from control import Control  # noqa: E402
from load import Load  # noqa: E402
from model import IMAGE, Model  # noqa: E402

socket, control_socket, image = sys.argv[1:4]
seconds, seed = float(sys.argv[4]), int(sys.argv[5])
control = Control(control_socket)
snapshots = []


def digest():
    h = connect(socket, snapshots[-1])
    return hashlib.sha256(h.pread(IMAGE, 0)).hexdigest()


model = Model(random.Random(seed))
load = Load(socket, model, random.Random(seed + 1))
load.go(seconds / 4)  # the snapshot copies data, not only holes
for number in range(3):
    # Taken amid requests: its first copies meet those that are under way.
    snapshots.append(control.ask(f"snapshot then{number}")["name"])
    before = digest()
    load.go(seconds / 4)
    assert digest() == before, f"the snapshot has changed (seed {seed})"
load.drain()
load.read_all()
load.close()
with open(image, "rb") as file:
    wrong = model.compare((0, len(model.slots)), file.read(IMAGE), time.monotonic())
findings = load.findings + load.errors + ([f"in the file: {wrong}"] if wrong else [])
assert not findings, f"seed {seed}: {findings[0]}"
assert load.requests > 100, load.requests
