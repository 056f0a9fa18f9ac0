# SPDX-License-Identifier: BSD-3-Clause
"""Starts servers as systemd does, and reads what they tell it.

    PROGRAM DIRECTORY
"""
import errno
import json
import os
import signal
import socket
import subprocess
import sys

import control

directory = sys.argv[1]
path = directory + "/nbd.sock"
pid_file = directory + "/pid"
for name in directory + "/notify", f"@nbdloop-test-{os.getpid()}":
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(name.replace("@", "\0"))
    manager.settimeout(20)
    ours, theirs = os.pipe()
    open(directory + "/conf", "w").close()
    server = subprocess.Popen(
        ["nbdloopd", "-U", path, "--pid-file", pid_file, "--notify-fd", str(theirs), "--drain-limit=17",
         "--control=" + directory + "/control.sock", "--config=" + directory + "/conf", directory + "/disk.img"],
        pass_fds=[theirs], env={**os.environ, "NOTIFY_SOCKET": name}, stderr=subprocess.PIPE)
    os.close(theirs)
    # Before each image, which may take long to open; then what systemctl shows.
    assert manager.recv(4096) == b'EXTEND_TIMEOUT_USEC=90000000\nSTATUS=opening export ""'
    assert manager.recv(4096).startswith(b"STATUS=serving 1 export on ")
    assert manager.recv(4096) == b"READY=1"
    socket.socket(socket.AF_UNIX).connect(path)
    with open(pid_file) as f:
        assert f.read() == f"{server.pid}\n"
    events = os.fdopen(ours)
    assert json.loads(events.readline()) == {"event": "ready", "addresses": [path]}
    # The process that was started is the server itself, not a parent of it.
    with open(f"/proc/{server.pid}/status") as f:
        assert "nbdloopd" in f.readline()
    server.send_signal(signal.SIGHUP)
    first, second = manager.recv(4096).split(b"\n")
    assert first == b"RELOADING=1" and second.startswith(b"MONOTONIC_USEC="), (first, second)
    states = {manager.recv(4096)[:23] for _ in range(2)}
    assert states == {b"READY=1", b"STATUS=serving 1 export"}, states
    # Another export, while clients are connected, changes what systemctl shows.
    control.ask(directory + "/control.sock", f"add more={directory}/more.img")
    assert manager.recv(4096).startswith(b"STATUS=serving 2 exports on ")
    # One that can't be served.
    assert b"error" in control.ask(directory + "/control.sock", f"add none={directory}/none.img")
    refused = json.loads(events.readline())
    assert "No such file" in refused.pop("text")
    assert refused == {"event": "refused", "subject": directory + "/none.img", "errno": 2}, refused
    # A broken configuration, until it is mended.
    with open(directory + "/conf", "w") as conf:
        conf.write("[server]\nportt = 1\n")
    server.send_signal(signal.SIGHUP)
    assert manager.recv(4096).startswith(b"RELOADING=1")
    status = manager.recv(4096)
    assert status.startswith(b"STATUS=serving with the old configuration, because the new one is wrong: ") and b"portt" in status, status
    assert manager.recv(4096) == b"READY=1"
    # The command that checks it before a reload tells the same, and nothing beside a reload.
    check = ["nbdloopd", "--check-config", "--config=" + directory + "/conf"]
    environment = {**os.environ, "NOTIFY_SOCKET": name}
    assert subprocess.run(check, env=environment, stderr=subprocess.DEVNULL).returncode == 2
    assert subprocess.run(check, env={**environment, "MAINPID": "1"}, stderr=subprocess.DEVNULL).returncode == 2
    assert manager.recv(4096) == status, status
    open(directory + "/conf", "w").close()
    assert subprocess.run(check + [directory + "/disk.img"], env={**environment, "MAINPID": "1"}).returncode == 0
    server.send_signal(signal.SIGHUP)
    assert manager.recv(4096).startswith(b"RELOADING=1")
    states = {manager.recv(4096)[:23] for _ in range(2)}
    assert states == {b"READY=1", b"STATUS=serving 1 export"}, states
    server.send_signal(signal.SIGTERM)
    # As long as --drain-limit, and systemd's own default for the rest.
    while (state := manager.recv(4096)).startswith(b"STATUS=serving 1 export"):
        pass
    assert state == (b"STOPPING=1\nEXTEND_TIMEOUT_USEC=107000000\n"
                                  b"STATUS=ending: waits at most 17 s for clients and changes")
    assert server.wait(20) == 0
    assert not os.path.exists(pid_file), "the pid file is still there"
    # systemctl's reload tells nothing more here.
    assert [json.loads(line) for line in events] == [{"event": "ending"}]
    events.close()

# Two servers, of which the first has the lock; the reader of its events has gone.


def start(path):
    ours, theirs = os.pipe()
    server = subprocess.Popen(["nbdloopd", "-U", path, "--notify-fd", str(theirs), directory + "/disk.img"],
                              pass_fds=[theirs], stderr=subprocess.PIPE)
    os.close(theirs)
    return server, os.fdopen(ours)


first, events = start(path)
assert '"ready"' in events.readline()
events.close()
second, events = start(path + "2")
refused = json.loads(events.read())
assert refused["event"] == "refused" and refused["errno"] == errno.EAGAIN, refused
assert second.wait(20) == 1
first.send_signal(signal.SIGTERM)
assert first.wait(20) == 0
assert b"notify-fd" not in first.stderr.read()

# Messages to the journal carry priorities.
with open(directory + "/journal", "w") as journal:
    st = os.fstat(journal.fileno())
    r = subprocess.run(["nbdloopd", directory + "/none"], stderr=journal,
                       env={**os.environ, "JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}"})
assert r.returncode == 1
with open(directory + "/journal") as f:
    text = f.read()
assert text.startswith("<3>error: ") and text.count("\n") == 1, text
