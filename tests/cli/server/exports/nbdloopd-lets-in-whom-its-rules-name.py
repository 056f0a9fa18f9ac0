# SPDX-License-Identifier: BSD-3-Clause
"""What clients of several users and addresses may do.

    PROGRAM STEP SOCKET PORT CONTROL
"""
import errno
import os
import struct
import sys

import nbd

from client import connect, wait_for_end
from control import Control, ask
from raw_nbd import (ACK, ERR_POLICY, ERR_UNKNOWN, EXPORT_NAME, FIXED, GO, INFO, LIST, LIST_META, SET_META, STRUCTURED, WRITE,
                     WRITE_ZEROES, Raw, go_data, meta_data, option)
from waiting import wait_until

step, sock, port, control_path = sys.argv[1:]
control = Control(control_path)
EPERM = 1


def as_user(uid, gid, groups, function):
    """Runs the function in a process of this user."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            function()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, f"user {uid}, groups {groups}"


def names(where=sock):
    """What the client is listed."""
    with Raw(where) as raw:
        raw.greeting()
        raw.send(FIXED + option(LIST))
        listed = []
        while (reply := raw.option_reply())[1] != ACK:
            length, = struct.unpack(">I", reply[2][:4])
            listed.append(reply[2][4:4 + length].decode())
    return " ".join(listed)


def expect_names(wanted, where=sock):
    assert names(where) == wanted, (names(where), wanted)


def answer(number, data, where=sock):
    """The last reply to an option."""
    with Raw(where) as raw:
        raw.greeting()
        raw.send(FIXED + option(STRUCTURED) + option(number, data))
        assert raw.option_reply()[:2] == (STRUCTURED, ACK)
        while (reply := raw.option_reply())[1] < 1 << 31 and reply[1] != ACK:
            pass
    return reply[1], reply[2]


def expect_refused(name, error, where=sock):
    """All options that name the export get this error, once on a connection and all on one."""
    with Raw(where) as raw:
        raw.greeting()
        raw.send(FIXED + option(STRUCTURED) + option(LIST_META, meta_data(name=name)) +
                 option(SET_META, meta_data(b"base:allocation", name=name)) + option(INFO, go_data(name, [1, 2])) +
                 option(GO, go_data(name, [3])) + option(EXPORT_NAME, name))
        assert raw.option_reply()[:2] == (STRUCTURED, ACK)
        for number in LIST_META, SET_META, INFO, GO:
            reply = raw.option_reply()
            assert reply[:2] == (number, error), (name, reply)
        assert raw.until_end() == b""
    return reply[2]


def writes_are_refused():
    """A client that ignores its flags gets errors, and its data stays out."""
    h = connect(sock, "shared")
    assert h.is_read_only() and not h.can_trim() and not h.can_zero()
    h.set_strict_mode(0)
    for change in (lambda: h.pwrite(b"x" * 512, 0), lambda: h.trim(512, 0), lambda: h.zero(512, 0)):
        try:
            change()
        except nbd.Error as e:
            assert e.errnum == errno.EPERM, e
        else:
            raise AssertionError("a client that may only read has changed the image")
    assert h.pread(512, 0) == bytes(512)
    h.shutdown()
    for form in "simple", "structured":
        with Raw(sock, form, b"shared") as raw:
            raw.request(WRITE, 0, 512)
            raw.send(b"x" * 512)
            raw.request(WRITE_ZEROES, 0, 512, cookie=2)
            assert {raw.reply()[:2], raw.reply()[:2]} == {(1, EPERM), (2, EPERM)}


def connections(wanted):
    """The connections in the status; there are so many."""
    wait_until(f"{wanted} connections", lambda: len(control.status()["connections"]) == wanted)
    return control.status()["connections"]


def users():
    def stranger():
        expect_names("shared")
        same = expect_refused(b"team", ERR_UNKNOWN)
        assert expect_refused(b"nowhere", ERR_UNKNOWN) == same
        expect_refused(b"hidden", ERR_UNKNOWN)
        expect_refused(b"near", ERR_UNKNOWN)
        writes_are_refused()
    as_user(4243, 4243, [], stranger)

    def member():
        expect_names("team shared")
        h = connect(sock, "team")
        assert not h.is_read_only()
        h.pwrite(b"t" * 512, 0)
        h.shutdown()
    as_user(4242, 4242, [], member)
    as_user(4243, 2, [], member)
    as_user(4243, 4243, [7, 2], member)

    def writer():
        h = connect(sock, "shared")
        assert not h.is_read_only()
        h.pwrite(b"w" * 512, 4096)
        assert h.pread(512, 4096) == b"w" * 512
        h.shutdown()
    as_user(1, 4243, [], writer)

    # A rule about a network names no client on a unix socket, whoever it is.
    expect_names("shared")
    expect_refused(b"near", ERR_UNKNOWN)
    expect_names("shared near", port)
    expect_refused(b"hidden", ERR_UNKNOWN, port)
    expect_refused(b"team", ERR_UNKNOWN, port)


def addresses():
    here = connect(f"nbd://127.0.0.1:{port}/near")
    try:
        connect(f"nbd://[::1]:{port}/near")
    except nbd.Error as e:
        assert "no export named" in str(e) or "connect" in str(e), e
    else:
        raise AssertionError("::1 is in no network of IPv4")
    (status,) = connections(1)
    assert status["identity"] == ["net:127.0.0.1"], status
    assert not status["read_only"]
    local = connect(sock, "shared")
    status = max(connections(2), key=lambda c: c["id"])
    groups = [f"gid:{g}" for g in os.getgroups() if g != os.getgid()]
    assert status["identity"] == [f"uid:{os.getuid()}", f"gid:{os.getgid()}"] + groups, status
    assert status["read_only"]
    here.shutdown()
    local.shutdown()


def changes():
    exports = {e["name"]: (e["allow"], e["allow_write"]) for e in control.status()["exports"]}
    assert exports == {"team": ("uid:4242 group:bin", None), "shared": ("any", "user:daemon"), "hidden": ("none", None),
                       "near": ("net:127.0.0.0/8, gid:12", None)}, exports
    old = connect(sock, "shared")
    two = [connect(f"nbd://127.0.0.1:{port}/near") for _ in range(2)]
    e = control.ask("set allow=uid:4242 allow-write=user:root export=shared")
    assert (e["name"], e["allow"], e["allow_write"], e["connections"]) == ("shared", "uid:4242", "user:root", 1), e
    # A connection that exists stays as it is.
    assert old.is_read_only()
    old.pread(512, 0)
    new = connect(sock, "shared")
    assert not new.is_read_only()
    new.pwrite(b"n" * 512, 0)
    as_user(4243, 4243, [], lambda: expect_refused(b"shared", ERR_POLICY))
    as_user(4243, 4243, [], lambda: expect_refused(b"nowhere", ERR_POLICY))
    as_user(4243, 4243, [], lambda: expect_names(""))
    # One option, and then back to all.
    assert control.ask("set allow-write=none export=shared")["allow"] == "uid:4242"
    as_user(4242, 4242, [], lambda: writes_are_refused_again())
    # Those of a network only, those of an export only, and then all of a user.
    assert control.ask("disconnect net:127.0.0.1 export=shared") == {"disconnected": 0}
    assert control.ask("disconnect net:127.0.0.1,psk:nobody") == {"disconnected": 2}
    for h in two:
        wait_for_end(h)
    old.pread(512, 0)
    new.pread(512, 0)
    assert control.ask("disconnect uid:4243") == {"disconnected": 0}
    assert control.ask("disconnect user:root export=shared") == {"disconnected": 2}
    for h in old, new:
        wait_for_end(h)
    connections(0)
    half = Raw(sock)
    half.greeting()
    assert control.ask("disconnect any") == {"disconnected": 1}
    half.until_end()
    for request, hint in (("set allow=user:nobody-of-this-name export=shared", "no user of this name"),
                          ("set allow=x export=shared", "psk:USER"), ("set allow=any", "which export"),
                          ("set allow=any export=nowhere", "no such export"),
                          ("set allow=psk:alice export=shared", "tls-psk=FILE"),
                          ("disconnect x", "psk:USER"), ("disconnect any export=nowhere", "no such export"),
                          ("add late=/nowhere,allow=x", "psk:USER")):
        line = ask(control_path, request).decode()
        assert "error" in line and hint in line, (request, line)
    assert control.export()["name"] == "team"


def writes_are_refused_again():
    h = connect(sock, "shared")
    assert h.is_read_only()
    h.shutdown()


def later():
    e = control.ask(f"add later={os.path.dirname(sock)}/later.img")
    assert (e["allow"], e["allow_write"]) == ("uid:4242", None), e
    as_user(4242, 4242, [], lambda: expect_names("shared later"))
    as_user(4243, 4243, [], lambda: expect_names("team shared"))
    e = control.ask(f"add own={os.path.dirname(sock)}/own.img,allow=any,read-only=on")
    assert e["allow"] == "any", e
    control.ask("remove export=own")
    control.ask("remove export=later")


def reread():
    as_user(4243, 4243, [], lambda: expect_names("team shared"))
    as_user(4242, 4242, [], lambda: expect_names("shared"))
    as_user(1, 1, [], lambda: connect(sock, "shared").pwrite(b"d" * 512, 0))


{"users": users, "addresses": addresses, "changes": changes, "later": later, "reread": reread}[step]()
