# SPDX-License-Identifier: BSD-3-Clause
"""Makes sockets as guards and servers do, and listens on some of them.

    PROGRAM DIRECTORY DEAD SERVED DEAF READY

The PIDs name the sockets: nobody listens for DEAD, a server for SERVED, a guard for DEAF.  Then makes the
file READY, and waits.
"""
import os
import socket
import sys
import time

run, dead, served, deaf, ready = sys.argv[1:]


def listen(name, type):
    s = socket.socket(socket.AF_UNIX, type)
    s.bind(f"{run}/{name}")
    s.listen(1)
    return s


# Those first that keep others: a command of another test may remove the rest at any moment.
kept = [listen(f"{served}.sock", socket.SOCK_STREAM), listen(f"{deaf}.guard", socket.SOCK_SEQPACKET)]
for name in f"{dead}.sock", f"{deaf}.sock", f"{dead}.nbd":
    listen(name, socket.SOCK_STREAM).close()
for name in f"{dead}.guard", f"{served}.guard":
    listen(name, socket.SOCK_SEQPACKET).close()
for note in f"{dead}.note", "note":
    open(f"{run}/{note}", "w").close()
open(ready, "w").close()
time.sleep(100000)
