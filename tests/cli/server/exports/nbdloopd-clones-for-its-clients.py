# SPDX-License-Identifier: BSD-3-Clause
"""Who has which clone.

    PROGRAM PORT DIRECTORY
"""
import sys
import time

import nbd

from control import Control

port, directory = sys.argv[1:]
control = Control(f"{directory}/control")
with open(f"{directory}/base.raw", "rb") as file:
    base = file.read()
KIB = 1024


def connect(export, user):
    h = nbd.NBD()
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_psk_file(f"{directory}/keys.psk")
    h.set_tls_username(user)
    h.set_export_name(export)
    h.connect_tcp("localhost", port)
    return h


def expect_refused(export, user):
    try:
        connect(export, user)
    except nbd.Error:
        return
    raise AssertionError(f"{user} gets {export}")


def names():
    return {export["name"] for export in control.ask("status")["exports"]}


def wait_for(names_wanted):
    for _ in range(600):
        if names() == names_wanted:
            return
        time.sleep(0.1)
    raise AssertionError((names(), names_wanted))


# A client keeps its clone, on all its connections, and after them.
alice = connect("room", "alice")
assert alice.get_size() == len(base)
assert alice.can_multi_conn()
assert alice.pread(len(base), 0) == base
alice.pwrite(b"A" * 5000, 3000, nbd.CMD_FLAG_FUA)
again = connect("room", "alice")
assert again.pread(5000, 3000) == b"A" * 5000
again.pwrite(b"a" * 100, 0)
alice.flush()
assert alice.pread(100, 0) == b"a" * 100
bob = connect("room", "bob")
assert bob.pread(len(base), 0) == base
bob.pwrite(b"B" * 4096, 0)
alice.shutdown()
again.shutdown()
alice = connect("room", "alice")
assert alice.pread(100, 0) == b"a" * 100
assert alice.pread(8000, 100) == base[100:3000] + b"A" * 5000 + base[8000:8100]
clones = {"room@psk:alice", "room@psk:bob"}
wait_for({"room", "try", "other"} | clones)

# Nobody finds the clone of another one, nor one too many, nor is a rule missed.
expect_refused("room@psk:bob", "alice")
expect_refused("room@psk:alice", "alice")
expect_refused("room", "eve")
expect_refused("room", "mallory")
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_psk_file(f"{directory}/keys.psk")
h.set_tls_username("mallory")
h.set_opt_mode(True)
h.connect_tcp("localhost", port)
listed = []
h.opt_list(lambda name, _: listed.append(name) or 0)
h.opt_abort()
assert listed == ["try", "other"], listed

# One that is removed makes room; its client stays.
control.ask("remove export=room@psk:bob")
assert bob.pread(4096, 0) == b"B" * 4096
eve = connect("room", "eve")
assert eve.pread(len(base), 0) == base
bob.shutdown()
clones = {"room@psk:alice", "room@psk:eve"}

# A connection's clone is its own, and ends with it.
handles = [connect("try", user) for user in ("mallory", "mallory", "alice")]
for i, h in enumerate(handles):
    assert not h.can_multi_conn()
    h.pwrite(bytes([i + 1]) * (64 * KIB), KIB)
expect_refused("try", "eve")
for i, h in enumerate(handles):
    assert h.pread(64 * KIB, KIB) == bytes([i + 1]) * (64 * KIB)
    assert h.pread(KIB, 0) == base[:KIB]
    h.shutdown()
wait_for({"room", "try", "other"} | clones)
h = connect("try", "mallory")
assert h.pread(len(base), 0) == base
h.shutdown()

# The export's end is that of its clones, and their clients stay.
control.ask("remove export=room")
wait_for({"try", "other"})
assert alice.pread(100, 0) == b"a" * 100
expect_refused("room", "alice")
alice.shutdown()
eve.shutdown()
