# SPDX-License-Identifier: BSD-3-Clause
"""The size of an image in Ceph, rbd/sized of 8 MiB, changes while it is served."""

import os
import subprocess
import sys
import time

import nbd

URI = sys.argv[1]
PATIENCE = 30 * int(os.environ.get("NBDLOOP_TIME_FACTOR", "1"))
MIB = 1 << 20


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"not within {PATIENCE} seconds: {what}")
        time.sleep(0.05)


def fails(call, *arguments):
    try:
        call(*arguments)
    except nbd.Error:
        return True
    return False


def connect():
    client = nbd.NBD()
    client.connect_uri(URI)
    return client


def resize(size):
    subprocess.run(["rbd", "resize", "--no-progress", "--allow-shrink", "--size", size, "rbd/sized"], check=True)


# Of a change that goes beyond the end of an image, librbd carries out a part, and reports success.
client = connect()
data = os.urandom(2 * MIB)
changes = [(client.pwrite, data, 3 * MIB), (client.zero, 2 * MIB, 3 * MIB)]
for change in changes:
    change[0](*change[1:])
resize("4M")
for change in changes:
    until(lambda: fails(*change), f"{change[0].__name__} beyond the end fails")
    assert fails(*change)
client.pwrite(data, 2 * MIB)
assert client.pread(2 * MIB, 2 * MIB) == data

# The server adopts the size: new clients see it, and old ones can use what there is.
until(lambda: connect().get_size() == 4 * MIB, "new clients see the new size")
resize("16M")
until(lambda: connect().get_size() == 16 * MIB, "new clients see the larger size")
client.pwrite(data, 3 * MIB)
new = connect()
new.pwrite(data, 14 * MIB)
assert new.pread(2 * MIB, 3 * MIB) == new.pread(2 * MIB, 14 * MIB) == data
