# SPDX-License-Identifier: BSD-3-Clause
"""Clients that say nothing, and come back when they are dropped, beside one that has a key:
nbdloopd-silent-clients-lock-nobody-out.py PORT KEYS TRIES"""
import selectors
import socket
import sys
import threading
import time

import nbd

from waiting import FACTOR

port, keys, tries = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
over = threading.Event()


def silent(count):
    """Keeps so many connections; each is made again as soon as it ends."""
    selector = selectors.DefaultSelector()

    def connect():
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        selector.register(client, selectors.EVENT_READ)

    for _ in range(count):
        connect()
    while not over.is_set():
        for key, _ in selector.select(0.1):
            try:
                data = key.fileobj.recv(4096)
            except OSError:
                data = b""
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                connect()


attack = threading.Thread(target=silent, args=(130,))
attack.start()
try:
    time.sleep(1)
    longest = 0
    for number in range(tries):
        begun = time.monotonic()
        h = nbd.NBD()
        h.set_tls(nbd.TLS_REQUIRE)
        h.set_tls_username("alice")
        h.set_tls_psk_file(keys)
        try:
            h.connect_tcp("127.0.0.1", str(port))
            assert h.pread(512, 0) == bytes(512)
        except nbd.Error as error:
            raise AssertionError(f"try {number + 1}, after {time.monotonic() - begun:.1f} s: {error.string}") from error
        longest = max(longest, time.monotonic() - begun)
        h.shutdown()
    assert longest < 10 * FACTOR, f"a client with a key waited for {longest:.1f} s"
    print(f"longest wait {longest:.1f} s")
finally:
    over.set()
    attack.join()
