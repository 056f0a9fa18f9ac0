#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd tells systemd, the reader of --notify-fd and its pid file when clients can connect; it
# also tells systemd when it reads its configuration again and when it ends.
. "$(dirname "$0")/../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"

"$python" - "$dir" <<'EOF2' >"$dir/check.log" 2>&1 || fail "it does not tell, or too early"
import os, signal, socket, subprocess, sys
directory = sys.argv[1]
path = directory + "/nbd.sock"
pid_file = directory + "/pid"
for name in directory + "/notify", "@nbdloop-test-%d" % os.getpid():
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(name.replace("@", "\0"))
    manager.settimeout(20)
    ours, theirs = os.pipe()
    server = subprocess.Popen(
        ["nbdloopd", "-U", path, "--pid-file", pid_file, "--notify-fd", str(theirs), directory + "/disk.img"],
        pass_fds=[theirs], env={**os.environ, "NOTIFY_SOCKET": name}, stderr=subprocess.PIPE)
    os.close(theirs)
    assert manager.recv(4096) == b"READY=1"
    socket.socket(socket.AF_UNIX).connect(path)
    with open(pid_file) as f:
        assert f.read() == f"{server.pid}\n"
    assert os.read(ours, 100) == b"\n"
    assert os.read(ours, 100) == b"", "--notify-fd stays open"
    os.close(ours)
    # The process that was started is the server itself, not a parent of it.
    with open(f"/proc/{server.pid}/status") as f:
        assert "nbdloopd" in f.readline()
    server.send_signal(signal.SIGHUP)
    first, second = manager.recv(4096).split(b"\n")
    assert first == b"RELOADING=1" and second.startswith(b"MONOTONIC_USEC="), (first, second)
    assert manager.recv(4096) == b"READY=1"
    server.send_signal(signal.SIGTERM)
    assert manager.recv(4096) == b"STOPPING=1"
    assert server.wait(20) == 0
    assert not os.path.exists(pid_file), "the pid file is still there"

# Messages to the journal carry priorities.
journal = open(directory + "/journal", "w")
st = os.fstat(journal.fileno())
r = subprocess.run(["nbdloopd", directory + "/none"], stderr=journal,
                   env={**os.environ, "JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}"})
assert r.returncode == 1
with open(directory + "/journal") as f:
    text = f.read()
assert text.startswith("<3>error: ") and text.count("\n") == 1, text
EOF2

# A server that can't start leaves no pid file of its own, and doesn't touch another server's.
echo 4711 >"$dir/pid"
refuse_nbdloopd 1 -U "$dir/nowhere/socket" --pid-file "$dir/pid" "$image"
expect_equal "another server's pid file" 4711 "$(cat "$dir/pid")"
