# SPDX-License-Identifier: BSD-3-Clause
"""Servers of an image in Ceph, each in the place of the one before."""
import errno
import json
import os
import signal
import subprocess
import sys
import time

import client
from control import Control
from waiting import FACTOR, TIMEOUT, wait_until

DIR = sys.argv[1]
SIZE = 65536
SOON = 10 * FACTOR  # seconds, for a start; Ceph would need 30 to notice that a client is gone


class Server:
    def __init__(self, name, *options):
        self.socket, self.log = f"{DIR}/{name}.sock", f"{DIR}/{name}.log"
        self.control = Control(f"{DIR}/{name}.ctl")
        self.begun = time.monotonic()
        ours, theirs = os.pipe()
        self.process = subprocess.Popen(
            ["nbdloopd", f"--unix={self.socket}", f"--control={self.control.path}", f"--notify-fd={theirs}", *options,
             "rbd:rbd/disk"], stderr=open(self.log, "w"), pass_fds=[theirs])
        os.close(theirs)
        os.set_blocking(ours, False)
        self.events, self.lines = ours, b""

    def says(self):
        return open(self.log).read()

    def tells(self, event, **members):
        """Whether it has told that event, of the image, with these members."""
        try:
            self.lines += os.read(self.events, 65536)
        except BlockingIOError:
            pass # there is nothing new
        wanted = {"event": event, "subject": "rbd:rbd/disk", **members}
        return any(wanted.items() <= json.loads(line).items() for line in self.lines.splitlines())

    def connect(self):
        """A client, of a server that has started soon."""
        wait_until("the server listens", lambda: "listening on" in self.says(), SOON, seen=self.says)
        return client.connect(self.socket)

    def address(self):
        """As a client of Ceph, before the first write."""
        ceph = self.control.export()["ceph"]
        assert ceph["lock_owner"], ceph
        assert self.tells("lock-taken", client=ceph["lock_address"]), self.lines
        return ceph["lock_address"]

    def refuses(self, *words):
        assert self.process.wait(SOON) != 0, self.says()
        for word in words:
            assert word in self.says(), (word, self.says())

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(TIMEOUT)


def stop(server):
    """Until all threads stand still."""
    def states():
        tasks = f"/proc/{server.process.pid}/task"
        return {open(f"{tasks}/{task}/stat").read().rpartition(")")[2].split()[0] for task in os.listdir(tasks)}

    server.process.send_signal(signal.SIGSTOP)
    wait_until("the server stands still", lambda: states() == {"T"}, seen=states)


def leave_lock():
    """The end of a server takes longer than it waits while the cluster expects answers of dead ones."""
    left = subprocess.run(["rbd", "lock", "ls", "--format=json", "rbd/disk"], check=True, stdout=subprocess.PIPE)
    for lock in json.loads(left.stdout):
        subprocess.run(["rbd", "lock", "rm", "rbd/disk", lock["id"], lock["locker"]], check=True)


subprocess.run(["rbd", "create", "--size", "64M", "rbd/disk"], check=True)
Server("wrong", "--ceph-fence=somebody").refuses("ceph-fence=somebody is no address of a client of Ceph")
Server("shared", "--ceph-lock=start", "--lock=shared").refuses("ceph-lock=start is not possible with lock=shared or off")
Server("reader", "--read-only", "--ceph-fence=127.0.0.1:0/1").refuses("needs write access")
zeroth = Server("zeroth", "--ceph-lock=start")
zeroth.connect()
predecessor = zeroth.address()
assert not zeroth.tells("lock-released")
zeroth.end(signal.SIGTERM)
assert zeroth.tells("lock-released") and not zeroth.tells("fenced"), zeroth.lines
first = Server("first", f"--ceph-fence={predecessor}+free")
one = first.connect()
one.pwrite(b"1" * SIZE, 0)

# A living owner: nobody waits for it.
beside = Server("beside", "--ceph-lock=start")
beside.refuses(f"the client {first.address()} has the image's lock; end that client")
assert beside.tells("refused", errno=errno.EBUSY) and not beside.tells("fenced"), beside.lines

# Writes that it has received, but not carried out. A start waits for it, unless it is to be fenced.
predecessor = first.address()
stop(first)
results = []
for i in range(8):
    one.aio_pwrite(b"X" * 4096, i * SIZE, completion=client.noting(results, i))
client.send_all(one)
waiting = Server("waiting", "--ceph-lock=start")
wait_until("the start waits", lambda: "does not answer: the start waits" in waiting.says(), seen=waiting.says)
waiting.end(signal.SIGKILL)
second = Server("second", f"--ceph-fence={predecessor}")
two = second.connect()
print(f"served {time.monotonic() - second.begun:.1f} s after the start")
assert second.address() != predecessor
assert f"fenced the client {predecessor}" in second.says(), second.says()
two.pwrite(b"2" * SIZE * 8, 0)
first.process.send_signal(signal.SIGCONT)
client.take(one)
assert len(results) == 8 and all(error for _, error in results), results
assert first.tells("fenced"), first.lines
assert two.pread(SIZE * 8, 0) == b"2" * SIZE * 8
first.end(signal.SIGTERM)
assert not first.tells("lock-released"), first.lines

# It is killed: the next one has the lock at once.
predecessor = second.address()
second.end(signal.SIGKILL)
third = Server("third", f"--ceph-fence={predecessor}+free")
three = third.connect()
print(f"served {time.monotonic() - third.begun:.1f} s after the start")
three.pwrite(b"3" * SIZE, 0)

# While it is dead, another client takes the image, writes, and leaves it.
predecessor = third.address()
third.end(signal.SIGKILL)
other = Server("other", "--force")
other.connect().pwrite(b"4" * SIZE, 0)
here = other.control.export()["ceph"]["lock_address"]
Server("fourth", f"--ceph-fence={predecessor}").refuses(
    f"another client has had the image since {predecessor}", f"the lock is with {here}")
other.end(signal.SIGTERM)
leave_lock()
fifth = Server("fifth", f"--ceph-fence={predecessor}")
fifth.refuses(f"another client has had the image since {predecessor}", "the lock is free")
assert fifth.tells("fenced") and fifth.tells("refused", errno=errno.ESTALE) and not fifth.tells("lock-taken"), fifth.lines
