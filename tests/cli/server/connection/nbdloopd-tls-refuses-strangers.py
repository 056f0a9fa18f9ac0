# SPDX-License-Identifier: BSD-3-Clause
"""A client that leaves when it has seen the server's certificate:
nbdloopd-tls-refuses-strangers.py SOCKET"""
import ssl
import sys

from raw_nbd import FIXED, STARTTLS, Raw, option

context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
server = Raw(sys.argv[1])
server.greeting()
server.send(FIXED + option(STARTTLS))
server.option_reply()
output = ssl.MemoryBIO()
tls = context.wrap_bio(ssl.MemoryBIO(), output)
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    server.send(output.read())
assert server.socket.recv(65536)
