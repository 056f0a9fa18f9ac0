# SPDX-License-Identifier: BSD-3-Clause
"""A server that listens nowhere, as that of a device: its snapshots have a socket of their own.

    PROGRAM IMAGE CONTROL NBDLOOP COMMAND...
"""
import os
import signal
import socket
import stat
import subprocess
import sys

import nbd

from client import connect, wait_for_end
from control import Control
from waiting import wait_until

image, control_socket, nbdloop, *command = sys.argv[1:]
side = control_socket.removesuffix(".sock") + ".nbd"


def start():
    """The server, and the client of the connection that it is given."""
    ours, theirs = socket.socketpair()
    server = subprocess.Popen([*command, f"--fd={theirs.fileno()}", "--control", control_socket, f"--export=disk={image}"],
                              pass_fds=[theirs.fileno()])
    theirs.close()
    disk = nbd.NBD()
    disk.set_export_name("disk")
    disk.connect_socket(ours.detach())
    wait_until("there is a control socket", lambda: os.path.exists(control_socket))
    return server, disk


server, disk = start()
assert not os.path.exists(side), "a socket that no snapshot needs"
old = disk.pread(65536, 0)
uri = subprocess.check_output([nbdloop, "snapshot", control_socket, "then"], text=True).strip()
assert uri == f"nbd+unix:///then?socket={side}", uri
assert stat.S_IMODE(os.stat(side).st_mode) == 0o600
disk.pwrite(b"n" * 65536, 0)
then = connect(uri)
assert then.is_read_only() and then.pread(65536, 0) == old
status = Control(control_socket).status()
assert [e.get("uri") for e in status["exports"]] == [None, uri], status["exports"]

# Removal ends the reader, and not the device's connection.
subprocess.check_call([nbdloop, "snapshot", "--remove", control_socket, "then"])
wait_for_end(then)
assert disk.pread(65536, 0) == b"n" * 65536

# A reader of a snapshot doesn't keep the server, whose end is that of its own connections.
uri = subprocess.check_output([nbdloop, "snapshot", control_socket, "%then"], text=True).strip()
assert uri == f"nbd+unix:///%25then?socket={side}", uri
then = connect(uri)
assert then.pread(4096, 0) == b"n" * 4096
disk.shutdown()
wait_for_end(then)
assert server.wait(60) == 0
assert not os.path.exists(side), "the socket of the snapshots is left"

# Nor does a socket that a killed server has left stop the next one.
server, disk = start()
subprocess.check_call([nbdloop, "snapshot", control_socket, "then"], stdout=subprocess.DEVNULL)
server.send_signal(signal.SIGKILL)
server.wait()
assert os.path.exists(side)
os.unlink(control_socket)
server, disk = start()
uri = subprocess.check_output([nbdloop, "snapshot", control_socket, "then"], text=True).strip()
assert connect(uri).pread(4096, 0) == b"n" * 4096
server.terminate()
assert server.wait(60) == 0
assert not os.path.exists(side)
