# SPDX-License-Identifier: BSD-3-Clause
"""Two gateways, a and b. This runs beside the cluster, as b does; a is in another network.

    two-gateways-survive-a-partition.py DIRECTORY NETWORK-OF-A

DIRECTORY/manual has the commands of the manual: 01 for the cluster and one gateway, 02 for two.
"""
import os
import shlex
import subprocess
import sys
import time

import nbd

from client import connect
from waiting import wait_until

DIR, NETWORK = sys.argv[1:]
SIZE = 65536
COUNT = 8


def manual(number, program):
    """The manual's command that runs this program, with files of /etc/ceph in our directory."""
    with open(f"{DIR}/manual/{number}") as file:
        lines = [line.strip() for line in file if line.startswith(program)]
    assert lines, f"the manual has no command {program}"
    return shlex.split(lines[0].replace("/etc/ceph/", f"{DIR}/"))


class Gateway:
    def __init__(self, name, *prefix):
        self.name, self.prefix, self.log = name, prefix, f"{DIR}/{name}.log"
        self.socket = f"{DIR}/{name}.sock"

    def start(self, number="02"):
        command = [*self.prefix, *manual(number, "nbdloopd"), f"--unix={self.socket}"]
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stderr=log)
        wait_until(f"gateway {self.name} listens", lambda: os.path.exists(self.socket), seen=self.said)

    def connect(self):
        return connect(self.socket, name="disk")

    def said(self):
        with open(self.log) as log:
            return log.read()

    def wait_until_fenced(self):
        wait_until(f"gateway {self.name} says that it is fenced",
                   lambda: "another client has fenced this server" in self.said(), seen=self.said)

    def end(self):
        self.process.terminate()
        assert self.process.wait() == 0, self.said()


def cable(state):
    subprocess.run(["ip", "-n", NETWORK, "link", "set", "cable", state], check=True)


def data(letter, count=1):
    return letter * SIZE * count


def fails(what, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error:
        return
    raise SystemExit(f"{what} succeeds")


subprocess.run(manual("01", "rbd"), check=True)
subprocess.run(manual("01", "ceph"), check=True)
a = Gateway("a", "ip", "netns", "exec", NETWORK)
b = Gateway("b")

# One gateway, and the next one that takes its place.
a.start("01")
of_a = a.connect()
of_a.pwrite(data(b"0", COUNT), 0)
of_a.flush()
of_a.shutdown()
a.end()

a.start()
b.start()
of_a, of_b = a.connect(), b.connect()
assert of_a.pread(SIZE * COUNT, 0) == data(b"0", COUNT)
of_a.pwrite(data(b"1", COUNT), 0)
of_a.flush()
assert of_b.pread(SIZE * COUNT, 0) == data(b"1", COUNT)

# A client that goes on with b may have writes under way on a, which is cut off.
cable("down")
late = [of_a.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data(b"X"))), i * SIZE) for i in range(COUNT)]
for _ in late:
    of_a.poll(0)
start = time.monotonic()
of_b.pwrite(data(b"2", COUNT), 0)
of_b.flush()
print(f"b writes {time.monotonic() - start:.2f} s after a was cut off")
assert "fenced the client" in b.said(), b.said()
for cookie in late:
    assert not of_a.aio_command_completed(cookie), "a write arrives without a cable"
cable("up")


def finish(cookie):
    while not of_a.aio_command_completed(cookie):
        of_a.poll(1000)


for cookie in late:
    fails("a late write", finish, cookie)
a.wait_until_fenced()
fails("a connection to the fenced gateway", a.connect)
assert of_b.pread(SIZE * COUNT, 0) == data(b"2", COUNT)

# A device that goes back to a, which was started again, is safe from b.
a.end()
a.start()
of_a = a.connect()
assert of_a.pread(SIZE * COUNT, 0) == data(b"2", COUNT)
of_a.pwrite(data(b"3", COUNT), 0)
of_a.flush()
fails("a write of the gateway that is fenced now", of_b.pwrite, data(b"X"), 0)
b.wait_until_fenced()
assert of_a.pread(SIZE * COUNT, 0) == data(b"3", COUNT)
a.end()
b.end()
