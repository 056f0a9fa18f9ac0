# SPDX-License-Identifier: BSD-3-Clause
"""Two servers of an image in Ceph; the first is stopped, fenced by the second, and continued."""

import json
import os
import signal
import subprocess
import sys
import time

import nbd

from control import Control

DIR = sys.argv[1]
PATIENCE = 60 * int(os.environ.get("NBDLOOP_TIME_FACTOR", "1"))
SIZE = 65536


def start(name, *options):
    log = open(f"{DIR}/{name}.log", "w")
    socket = f"{DIR}/{name}.sock"
    path = f"{DIR}/{name}.control"
    server = subprocess.Popen(["nbdloopd", f"--unix={socket}", f"--control={path}", *options, "rbd:rbd/disk"], stderr=log)
    server.log, server.control, server.uri = log.name, Control(path), f"nbd+unix:///?socket={socket}"
    until(lambda: log_has(server, "listening on"), f"{name} listens")
    return server


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"not within {PATIENCE} seconds: {what}")
        time.sleep(0.05)


def connect(server):
    client = nbd.NBD()
    client.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    client.connect_uri(server.uri)
    return client


def fails(call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        return str(error)
    raise SystemExit(f"{call.__name__}{arguments[1:]} succeeded")


def is_refused(call, *arguments):
    try:
        call(*arguments)
    except nbd.Error:
        return True
    return False


def is_stopped(pid):
    """Whether all threads stand still: on a busy machine, they run on for a moment after SIGSTOP."""
    states = set()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as stat:
                states.add(stat.read().rpartition(")")[2].split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended
    return states == {"T"}


def log_has(server, text):
    return text in open(server.log).read()


# Ceph's configuration does not decide whether a lost lock means a fence.
with open(os.environ["CEPH_CONF"]) as conf, open(f"{DIR}/unfenced.conf", "w") as unfenced:
    unfenced.write(conf.read() + "\n[client]\nrbd blocklist on break lock = false\n")
os.environ["CEPH_CONF"] = f"{DIR}/unfenced.conf"
subprocess.run(["rbd", "create", "--size", "64M", "rbd/disk"], check=True)
first = start("first")
one = connect(first)
idle = connect(first)
quiet = connect(first)
one.flush()
one.pwrite(b"1" * SIZE, 0)
one.flush()

# A client that asks for the lock, as librbd does before a write, does not get it, although a flush
# was the server's first request.
bench = ["rbd", "bench", "--io-type", "write", "--io-size", "4K", "--io-total", "4K", "rbd/disk"]
assert subprocess.run(bench).returncode != 0, "another client has written, too"

# The lock is the first server's, but a second one reads.
second = start("second", "--force")
two = connect(second)
assert two.pread(SIZE, 0) == b"1" * SIZE

# Writes that the first server has received, but not carried out, when the lock moves.
os.kill(first.pid, signal.SIGSTOP)
until(lambda: is_stopped(first.pid), "the first server stands still")
late = [one.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"X" * SIZE)), i * SIZE) for i in range(8)]
for _ in range(8):
    one.poll(0)
two.pwrite(b"2" * SIZE * 8, 0)
two.flush()
assert log_has(second, "fenced the client"), open(second.log).read()
os.kill(first.pid, signal.SIGCONT)

for cookie in late:
    def finish(command):
        while not one.aio_command_completed(command):
            one.poll(1000)
    fails(finish, cookie)
assert two.pread(SIZE * 8, 0) == b"2" * SIZE * 8
fails(idle.pread, SIZE, 0)
fails(idle.pwrite, b"X" * SIZE, 0)
error = fails(connect, first)
assert "shutting down" in error, error
until(lambda: log_has(first, "another client has fenced this server"), "the first server says why")
assert two.pread(SIZE * 8, 0) == b"2" * SIZE * 8

# After a reload, new clients have the image again, though one of before is still connected.
first.send_signal(signal.SIGHUP)
until(lambda: log_has(first, "the configuration was read again"), "the first server reads its configuration")
one = connect(first)
assert one.pread(SIZE * 8, 0) == b"2" * SIZE * 8
fails(quiet.pread, SIZE, 0)

# A server whose write waits for the lock ends at once.
third = start("third")
three = connect(third)
three.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"3" * SIZE)), 0)
until(lambda: three.poll(0) >= 0 and log_has(third, "has the image's lock"), "the write waits")
third.terminate()
begun = time.monotonic()
assert third.wait(PATIENCE) == 0
assert time.monotonic() - begun < PATIENCE / 4, f"the server ended after {time.monotonic() - begun} seconds"
assert two.pread(SIZE * 8, 0) == b"2" * SIZE * 8

# A search for extents sees the fence, too. An OSD tells each of its placement groups by itself:
# that of the object map may hear of it after that of the data.
lost = connect(second)
fourth = start("fourth", "--force")
four = connect(fourth)
four.pwrite(b"4" * SIZE, 0)
until(lambda: is_refused(two.block_status, SIZE, 0, lambda *_: 0), "a search for extents fails")
assert log_has(second, "another client has fenced this server"), open(second.log).read()
fails(two.pread, SIZE, 0)

# Both have lost it once, and both serve it again.
second.send_signal(signal.SIGHUP)
until(lambda: log_has(second, "the configuration was read again"), "the second server reads its configuration")
assert connect(second).pread(SIZE, 0) == b"4" * SIZE
fails(lost.pread, SIZE, 0)
fourth.terminate()
assert fourth.wait(PATIENCE) == 0, fourth.log
one.pwrite(b"1" * SIZE, 0)
one.flush()
assert connect(second).pread(SIZE, 0) == b"1" * SIZE

# An image whose lock another client disables, while the server has it and before it has it.
def disable_lock():
    subprocess.run(["rbd", "feature", "disable", "rbd/disk", "exclusive-lock", "object-map", "fast-diff"], check=True)


reader = connect(second)
disable_lock()
fails(one.pwrite, b"X" * SIZE, 0)
until(lambda: log_has(first, "disabled the image's feature exclusive-lock"), "the first server says why")
ceph = first.control.export()["ceph"]
assert ceph["fenced"] and not ceph["lock_owner"] and "exclusive-lock" not in ceph["features"], ceph
until(lambda: log_has(second, "disabled the image's feature exclusive-lock"), "the second server says why")
fails(reader.pread, SIZE, 0)

# After a reload, it serves the image again only with the feature.
first.send_signal(signal.SIGHUP)
until(lambda: log_has(first, "the image has no exclusive lock"), "the image is refused")
fails(connect, first)
subprocess.run(["rbd", "feature", "enable", "rbd/disk", "exclusive-lock"], check=True)
first.send_signal(signal.SIGHUP)
until(lambda: open(first.log).read().count("the configuration was read again") == 3, "the first server has it again")
one = connect(first)
# The write that failed was carried out, if the server had not heard of the loss yet.
assert one.pread(SIZE, 0) in (b"1" * SIZE, b"X" * SIZE)
one.pwrite(b"5" * SIZE, 0)

# A lock that was broken without a fence.
lock = json.loads(subprocess.check_output(["rbd", "lock", "ls", "--format=json", "rbd/disk"]))[0]
subprocess.run(["rbd", "lock", "rm", "--rbd-blocklist-on-break-lock=false", "rbd/disk", lock["id"], lock["locker"]], check=True)
fails(one.pwrite, b"X" * SIZE, 0)
until(lambda: log_has(first, "this server has lost the image's lock, and another"), "the first server says why")

for server in first, second:
    server.terminate()
    assert server.wait(PATIENCE) == 0, server.log
