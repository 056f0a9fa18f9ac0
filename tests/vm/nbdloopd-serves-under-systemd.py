# SPDX-License-Identifier: BSD-3-Clause
"""The clients of the claim, by its steps.

    PROGRAM STEP [ARGUMENT...]
"""
import json
import os
import sys

import nbd

sys.path.insert(0, os.environ["PYTHONPATH"])
import control
import process
from stopped_thread import stopped_thread

IMAGES, KEPT = "/srv/images", "/run/disk/kept"  # the same directory, before and after the reboot
CONTROL = "/run/nbdloopd/control.sock"
SOCKET, OWN_SOCKET = "/run/nbdloopd.sock", "/run/nbdloopd/nbd.sock"
BLOCK = 65536
WALL = 0x40000000  # __WALL of waitpid(): also threads


def pattern(n):
    return bytes([n]) * BLOCK


def connect(path, export):
    h = nbd.NBD()
    h.set_export_name(export)
    h.connect_unix(path)
    return h


def connect_encrypted():
    h = nbd.NBD()
    h.set_export_name("secret")
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_psk_file("/etc/nbdloopd/keys.psk")
    h.set_tls_username("alice")
    h.connect_tcp("127.0.0.1", "10810")
    assert h.get_tls_negotiated()
    return h


def request(text):
    answer = json.loads(control.ask(CONTROL, text))
    assert "error" not in answer, (text, answer)
    return answer


def expect_refusal(text, reason):
    answer = json.loads(control.ask(CONTROL, text))
    assert reason in answer.get("error", ""), (text, answer)


def serve():
    h = connect(SOCKET, "disk")
    h.pwrite(pattern(1), 0, nbd.CMD_FLAG_FUA)
    h.pwrite(pattern(2), BLOCK)
    h.flush()
    assert h.pread(BLOCK, 0) == pattern(1)
    h.trim(BLOCK, 4 * BLOCK)
    h.zero(BLOCK, 5 * BLOCK)
    export = request("status")["exports"][0]
    assert export["engine"] == "io_uring" and export["direct_io"], export
    # The record is made beside the image; the scratch file of a snapshot where it is told to be.
    request("checkpoint create monday")
    request(f"snapshot before scratch={IMAGES} export=disk")
    h.pwrite(pattern(3), 0)
    assert connect(OWN_SOCKET, "before").pread(BLOCK, 0) == pattern(1)
    assert h.pread(BLOCK, 0) == pattern(3)
    assert os.path.getsize(IMAGES + "/disk.img.changes") > 0
    # Images are added from the directories of the configuration; devices aren't there.
    request(f"add more={IMAGES}/more.img")
    connect(OWN_SOCKET, "more").pwrite(pattern(4), 0, nbd.CMD_FLAG_FUA)
    expect_refusal("add elsewhere=/srv/elsewhere.img", "the sandbox lets nbdloopd open only")
    expect_refusal("add drive=/dev/nvme0n1", "/dev/nvme0n1")
    h.shutdown()


def reloaded():
    connect(SOCKET, "third").pwrite(pattern(5), 0, nbd.CMD_FLAG_FUA)


def encrypt():
    connect_encrypted().pwrite(pattern(6), 0, nbd.CMD_FLAG_FUA)


def decrypt():
    assert connect_encrypted().pread(BLOCK, 0) == pattern(6)


def is_loop(pid, thread):
    """An idle event loop waits in io_uring_enter()."""
    with open(f"/proc/{pid}/task/{thread}/syscall") as f:
        return f.read().startswith("426 ")


def hang(pid):
    """Stops one loop until it is killed."""
    thread = next(int(thread) for thread in process.threads(pid) if is_loop(pid, thread))
    with stopped_thread(thread):
        os.waitpid(thread, WALL)


def again():
    h = connect(SOCKET, "disk")
    assert h.pread(BLOCK, 0) == pattern(3) and h.pread(BLOCK, BLOCK) == pattern(2)
    export = next(e for e in request("status")["exports"] if e["name"] == "disk")
    assert [c["name"] for c in export["checkpoints"]] == ["monday"], export


def kept():
    for name, offset, n in ("disk", 0, 3), ("disk", BLOCK, 2), ("more", 0, 4), ("third", 0, 5):
        with open(f"{KEPT}/{name}.img", "rb") as f:
            f.seek(offset)
            assert f.read(BLOCK) == pattern(n), (name, offset)
    assert os.path.getsize(KEPT + "/disk.img.changes") > 0


globals()[sys.argv[1]](*sys.argv[2:])
