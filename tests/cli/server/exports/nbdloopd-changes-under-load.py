# SPDX-License-Identifier: BSD-3-Clause
"""Makes each change several times, in turn; a client connects for each.

    PROGRAM SOCKET CONTROL PID DIRECTORY
"""
import json
import os
import signal
import sys

import control
from client import connect, wait_for_end
from control import Control
from waiting import wait_until

path, control_path, pid, directory = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ask = Control(control_path).ask


def visit(name):
    h = connect(path, name)
    h.pread(512, 0)
    h.shutdown()


def add():
    """A client that has left may still be connected for the server, and keep the removed export."""
    return "error" not in json.loads(control.ask(control_path, f"add added={directory}/other.img"))


def names():
    return {e["name"] for e in ask("status")["exports"]}


for turn in range(12):
    wait_until("the export is added", add, 60)
    visit("added")
    visit("disk")
    ask(f"set direct-io={'off' if turn % 2 else 'on'} export=disk")
    ask("resize export=disk")
    ask(f"set allow=uid:{os.getuid()},cid:{turn} export=disk")
    visit("disk")
    idle = connect(path, "added")
    assert ask("disconnect any export=added") == {"disconnected": 1}
    wait_for_end(idle)
    if turn % 3:
        ask("remove export=added")
    else:
        os.kill(pid, signal.SIGHUP)  # it is not in the configuration
    wait_until("the export is removed", lambda: "added" not in names(), 60)
