# SPDX-License-Identifier: BSD-3-Clause
"""What clients with keys and certificates may do.

    PROGRAM PORT DIRECTORY CONTROL
"""
import errno
import sys

import nbd

from client import wait_for_end
from control import Control

port, directory, control_path = sys.argv[1:]
control = Control(control_path)


def handle(user=None, certificate=None):
    """A client, not connected yet; without both, one in clear."""
    h = nbd.NBD()
    h.set_tls(nbd.TLS_REQUIRE if user or certificate else nbd.TLS_DISABLE)
    if user:
        h.set_tls_psk_file(f"{directory}/keys.psk")
        h.set_tls_username(user)
    if certificate:
        h.set_tls_certificates(f"{directory}/{certificate}")
    return h


def connect(export, **client):
    h = handle(**client)
    h.set_export_name(export)
    h.connect_tcp("localhost", port)
    assert h.get_tls_negotiated() == bool(client)
    return h


def expect_names(*wanted, **client):
    names = []
    h = handle(**client)
    h.set_opt_mode(True)
    h.connect_tcp("localhost", port)
    h.opt_list(lambda name, description: names.append(name) or 0)
    h.opt_abort()
    assert names == list(wanted), (client, names)


def expect_refused(export, text, **client):
    try:
        connect(export, **client)
    except nbd.Error as e:
        assert text in str(e), (export, client, e)
    else:
        raise AssertionError(f"{client} may use {export}")


UNKNOWN, POLICY = "no export named", "server policy"

expect_names("own", "shared", user="alice")
expect_names("shared", user="bob")
expect_names(user="eve")
expect_names("common", "alternative", certificate="backup host")
expect_names(certificate="stranger")
expect_names()
expect_refused("own", UNKNOWN, user="bob")
expect_refused("nowhere", UNKNOWN, user="bob")
expect_refused("own", POLICY, user="eve")
expect_refused("shared", UNKNOWN, certificate="backup host")
expect_refused("common", POLICY, certificate="stranger")
expect_refused("shared", POLICY)

alice = connect("shared", user="alice")
alice.pwrite(b"a" * 4096, 4096)
bob = connect("shared", user="bob")
assert bob.is_read_only() and not alice.is_read_only()
assert bob.pread(4096, 4096) == b"a" * 4096
bob.set_strict_mode(0)
try:
    bob.pwrite(b"b" * 4096, 4096)
except nbd.Error as e:
    assert e.errnum == errno.EPERM, e
else:
    raise AssertionError("bob may write")
host = connect("common", certificate="backup host")
host.pwrite(b"h" * 512, 0)
connect("alternative", certificate="backup host").shutdown()

# "localhost" is one address or the other.
OWN = {"net:127.0.0.1", "net:::1"}
identities = {c["export"] + str(c["read_only"]): c["identity"] for c in control.status()["connections"] if c["export"] != "alternative"}
assert all(OWN.intersection(identity) for identity in identities.values()), identities
proven = {name: [fact for fact in identity if fact not in OWN] for name, identity in identities.items()}
assert proven == {"sharedFalse": ["psk:alice"], "sharedTrue": ["psk:bob"],
                  "commonFalse": ["cn:backup%20host", "san:dns:backup.host.example.org"]}, proven

# A change is for those who come; the others are disconnected by what they are.
assert control.ask("set allow=psk:eve,cn:stranger export=shared")["allow"] == "psk:eve,cn:stranger"
assert bob.pread(512, 4096) == b"a" * 512
assert control.ask("disconnect psk:bob,cn:stranger") == {"disconnected": 1}
wait_for_end(bob)
assert control.ask("disconnect cn:backup%20host") == {"disconnected": 1}
wait_for_end(host)
expect_refused("shared", POLICY, user="bob")
assert alice.pread(512, 4096) == b"a" * 512
assert connect("shared", user="eve").is_read_only()
assert connect("shared", certificate="stranger").is_read_only()
