# SPDX-License-Identifier: BSD-3-Clause
"""Is systemd for a server with two event loops, which the test stops one at a time.

    PROGRAM DIRECTORY ENGINE
"""
import os
import socket
import subprocess
import sys
import time

import process
from stopped_thread import stopped_thread
from waiting import FACTOR, TIMEOUT, wait_until

directory, engine = sys.argv[1:]
log = directory + ".server.log"
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify = directory + "/notify"
manager.bind(notify)
manager.settimeout(TIMEOUT)
INTERVAL = FACTOR  # seconds


def start(environment):
    with open(log, "w") as f:
        server = subprocess.Popen(
            ["nbdloopd", "--threads=2", "--engine=" + engine, "-U", directory + "/nbd.sock", directory + "/disk.img"],
            env={**os.environ, "NOTIFY_SOCKET": notify, **environment}, stderr=f)
    wait_until("it is ready", lambda: manager.recv(4096) == b"READY=1")
    return server


def end(server):
    server.terminate()
    wait_until("it ends", lambda: manager.recv(4096).startswith(b"STOPPING=1\n"))
    assert server.wait(TIMEOUT) == 0


def is_logged(text):
    with open(log) as f:
        return text in f.read()


def messages():
    """Those that have come already."""
    found = []
    manager.setblocking(False)
    try:
        while True:
            found.append(manager.recv(4096))
    except BlockingIOError:
        manager.settimeout(TIMEOUT)
    return found


def is_silent():
    time.sleep(INTERVAL)
    return messages() == []


def expect_silence():
    wait_until("the signs end", is_silent)


def expect_sign():
    assert manager.recv(4096) == b"WATCHDOG=1"


def waits_in(server, seconds):
    before = process.waits(server.pid)
    time.sleep(seconds)
    after = process.waits(server.pid)
    return {thread: after[thread] - before.get(thread, 0) for thread in after}


def loop_of(thread, known):
    """The number of the event loop that hangs when the thread stands still; None: none does."""
    with stopped_thread(thread):
        end = time.monotonic() + INTERVAL
        while time.monotonic() < end:
            for number in {1, 2} - known:
                if is_logged(f"event loop {number} hangs"):
                    expect_silence()
                    return number
            time.sleep(0.05)
        return None


server = start({"WATCHDOG_USEC": str(INTERVAL * 1000000)})
for _ in range(3):
    expect_sign()
# Each thread is asked four times in this time; the rest is for what else may wake it.
woken = waits_in(server, INTERVAL)
assert all(count <= 15 for count in woken.values()), woken

loops = set()
# The loops are the last to start.  Nobody reads the signs while another thread is tried.
for thread in sorted((int(t) for t in process.threads(server.pid)), reverse=True):
    if loops == {1, 2}:
        break
    if thread != server.pid and (number := loop_of(thread, loops)):
        expect_sign()
        assert is_logged(f"event loop {number} runs again")
        loops.add(number)
assert loops == {1, 2}, loops

with stopped_thread(server.pid):
    wait_until("the main thread is named", lambda: is_logged("the main thread hangs"))
    expect_silence()
expect_sign()
end(server)

# Without a watchdog, and with that of another process, an idle server sleeps.
for environment in {}, {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}:
    server = start(environment)
    # The start may still be under way.
    wait_until("it sleeps", lambda: sum(waits_in(server, 1).values()) == 0)
    end(server)
