# SPDX-License-Identifier: BSD-3-Clause
"""Two handshakes that stand still before the client's last message: one goes on, and one after the
client's certificate was revoked: nbdloopd-tls-keeps-out-whom-it-revoked.py DIRECTORY"""
import os
import shutil
import signal
import ssl
import sys

from control import Control
from raw_nbd import FIXED, LIST, STARTTLS, Raw, option
from waiting import wait_until

directory = sys.argv[1]
REPLY_SIZE = 20  # bytes, without data


class Shaker:
    """A client whose last message of the handshake is made, and not sent."""

    def __init__(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(f"{directory}/client/client-cert.pem", f"{directory}/client/client-key.pem")
        self.plain = Raw(os.environ["sock"])
        self.plain.greeting()
        self.plain.send(FIXED + option(STARTTLS))
        self.plain.option_reply()
        self.input, self.output = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.input, self.output)
        while not self.is_done():
            self.flush()
            self.input.write(self.plain.socket.recv(65536))

    def is_done(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def flush(self):
        data = self.output.read()
        if data:
            self.plain.send(data)

    def is_served(self):
        """Sends the last message, and an option."""
        self.tls.write(option(LIST))
        self.flush()
        while True:
            try:
                return len(self.tls.read(REPLY_SIZE)) == REPLY_SIZE
            except ssl.SSLWantReadError:
                data = self.plain.socket.recv(65536)
                if not data:
                    return False
                self.input.write(data)


def log():
    with open(os.environ["log"], encoding="utf-8") as file:
        return file.read()


first, second = Shaker(), Shaker()
assert first.is_served()
shutil.copy(f"{directory}/ca-crl.pem", f"{directory}/pki")
os.kill(int(os.environ["pid"]), signal.SIGHUP)
wait_until("the files are read again", lambda: "TLS were read again" in log())
assert Control(f"{directory}/control").ask("disconnect cn:mallory") == {"disconnected": 1}
assert not second.is_served()
