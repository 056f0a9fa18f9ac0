# SPDX-License-Identifier: BSD-3-Clause
"""NBD through other programs' TLS: PROGRAM SOCKET CERTIFICATES KEYS CONTROL"""
import random
import socket
import subprocess
import sys
import threading

from control import status
from raw_nbd import *
from waiting import TIMEOUT, wait_until

path, pki, keys, control_path = sys.argv[1:]
with open(keys) as f:
    user, key = f.readline().strip().split(":")
rng = random.Random(1)
MIB = 1 << 20

GNUTLS_X509 = [f"--x509cafile={pki}/ca-cert.pem", f"--x509certfile={pki}/client-cert.pem", f"--x509keyfile={pki}/client-key.pem",
               "--verify-hostname=localhost"]
GNUTLS_PSK = [f"--pskusername={user}", f"--pskkey={key}"]
OPENSSL_X509 = ["-CAfile", f"{pki}/ca-cert.pem", "-cert", f"{pki}/client-cert.pem", "-key", f"{pki}/client-key.pem",
                "-verify_return_error", "-verify_hostname", "localhost"]
OPENSSL_PSK = ["-psk_identity", user, "-psk", key]


def gnutls(priority, *credentials):
    def command(port):
        return ["gnutls-cli", "--logfile=/dev/null", f"--priority=NORMAL:-VERS-ALL:{priority}",
                f"--port={port}", *credentials, "127.0.0.1"]
    return command


def openssl(*options):
    def command(port):
        return ["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}", *options]
    return command


class Door:
    """A port at which a TLS client finds the server's TLS: what comes before it in NBD is done."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        inside, _ = self.listening.accept()
        with Raw(path) as server:
            server.greeting()
            server.send(FIXED + option(STARTTLS))
            assert server.option_reply()[:2] == (STARTTLS, ACK)
            back = threading.Thread(target=self.relay, args=(server.socket, inside), daemon=True)
            back.start()
            self.relay(inside, server.socket)
            back.join()

    @staticmethod
    def relay(source, target):
        source.settimeout(None)
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has gone


class Carried(Raw):
    """A connection through a TLS client's standard input and output."""

    def __init__(self, command):
        ours, theirs = socket.socketpair()
        self.form, self.socket = STRUCTURED_FORM, ours
        ours.settimeout(TIMEOUT)
        self.process = subprocess.Popen(command(Door().port), stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
        theirs.close()

    def close(self):
        self.socket.close()
        self.process.kill()
        return self.process.communicate()[1]

    def begin(self):
        self.send(opening(self.form)[len(FIXED):])
        while self.option_reply()[:2] != (GO, ACK):
            pass


def write_and_read(client):
    for offset, length in (0, 1), (4000, 5000), (MIB, 100000):
        data = rng.randbytes(length)
        client.request(WRITE, offset, length, cookie=1)
        client.send(data)
        assert client.reply() == (1, 0, b"")
        client.request(READ, offset, length, cookie=2)
        assert client.reply() == (2, 0, data), (offset, length)


def connections():
    return status(control_path)["connections"]


def expect_status(protocol, fact):
    # The client before this one may still be there.
    wait_until("one client is left", lambda: len(connections()) == 1, seen=connections)
    connection, = connections()
    assert connection["tls"].startswith(protocol + " user space"), connection
    assert fact in connection["identity"], connection


def carry(protocol, fact, command):
    client = Carried(command)
    try:
        client.begin()
        write_and_read(client)
        expect_status(protocol, fact)
        client.request(DISC)
        assert client.until_end() == b""
    except (AssertionError, OSError, EOFError) as problem:
        raise AssertionError(f"{command(0)}: {problem!r}\n{client.close().decode()}") from problem
    client.close()


CN, PSK = "cn:alice", "psk:" + user
carry("1.3 AES-128-GCM", CN, gnutls("+VERS-TLS1.3", *GNUTLS_X509))
carry("1.3 AES-128-GCM", PSK, gnutls("+VERS-TLS1.3:+ECDHE-PSK", *GNUTLS_PSK))
carry("1.3 CHACHA20-POLY1305", CN, gnutls("+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305", *GNUTLS_X509))
carry("1.2 AES-256-GCM", CN, gnutls("+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM", *GNUTLS_X509))
# gnutls-cli 3.7.9 crashes with TLS 1.2 and a key; openssl does that.
carry("1.3 AES-128-GCM", CN, openssl(*OPENSSL_X509))
carry("1.3 AES-128-GCM", PSK, openssl("-ciphersuites", "TLS_AES_128_GCM_SHA256", *OPENSSL_PSK))
carry("1.2 AES-128-GCM", CN, openssl("-tls1_2", "-max_send_frag", "512", *OPENSSL_X509))
carry("1.2 CHACHA20-POLY1305", PSK, openssl("-tls1_2", "-cipher", "ECDHE-PSK-CHACHA20-POLY1305", *OPENSSL_PSK))
