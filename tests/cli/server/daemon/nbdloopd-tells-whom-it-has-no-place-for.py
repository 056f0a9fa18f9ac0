# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a server with two places: nbdloopd-tells-whom-it-has-no-place-for.py clear|tls SOCKET PORT KEYS"""
import sys

import nbd

from client import connect
from raw_nbd import ABORT, ACK, ERR_POLICY, EXPORT_NAME, FIXED, GO, LIST, STARTTLS, Raw, go_data, option
from waiting import wait_until

PLACES = 16
kind, sock, port, keys = sys.argv[1:]
REASON = "nbdloopd has no place for another client (--max-connections=2)"


def connect_with_key():
    h = nbd.NBD()
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_username("alice")
    h.set_tls_psk_file(keys)
    h.connect_tcp("127.0.0.1", port)
    return h


def expect_reason(uri):
    """Older versions of libnbd have the server's words in their messages for debugging only."""
    words = []
    h = nbd.NBD()
    h.set_debug(True)
    h.set_debug_callback(lambda _, message: words.append(message) or 0)
    try:
        h.connect_uri(uri)
    except nbd.Error as error:
        words.append(error.string)
    else:
        raise AssertionError(f"{uri}: a third client was served")
    assert "policy" in words[-1] and any(REASON in word for word in words), words


def expect_refusal(where):
    """Each option is answered, and then the server waits for the client to leave."""
    with Raw(where) as client:
        client.greeting()
        client.send(FIXED)
        for number, data in (STARTTLS, b""), (LIST, b""), (GO, go_data()), (99, bytes(16384)):
            client.send(option(number, data))
            assert client.option_reply() == (number, ERR_POLICY, REASON.encode()), number
        client.send(option(ABORT))
        assert client.option_reply()[:2] == (ABORT, ACK)
        assert client.until_end() == b""
    with Raw(where) as client:
        client.greeting()
        client.send(FIXED + option(EXPORT_NAME))
        assert client.until_end() == b"", "EXPORT_NAME knows no error reply"


def is_told(where):
    with Raw(where) as client:
        client.send(FIXED + option(GO, go_data()))
        try:
            client.greeting()
            return client.option_reply() == (GO, ERR_POLICY, REASON.encode())
        except (EOFError, ConnectionError):
            return False


def silence_holds_nobody_up():
    silent = [Raw(sock) for _ in range(PLACES)]
    for client in silent:
        client.greeting()
    with Raw(sock) as other:
        assert other.until_end() == b"", "there are more than enough places"
    silent[0].socket.close()
    wait_until("the place of a client that has left is free", lambda: is_told(sock))
    assert silent[1].until_end() == b"", "a silent client got more than a greeting"
    wait_until("the places of silent clients are free", lambda: is_told(port))


served = [connect_with_key() if kind == "tls" else connect(sock) for _ in range(2)]
if kind == "clear":
    expect_reason(f"nbd+unix:///?socket={sock}")
    expect_reason(f"nbd://127.0.0.1:{port}")
    silence_holds_nobody_up()
expect_refusal(sock)
expect_refusal(port)
for h in served:
    assert h.pread(512, 0) == bytes(512)
served.pop().shutdown()
wait_until("there is room again", lambda: not is_told(sock))
