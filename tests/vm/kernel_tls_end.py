# SPDX-License-Identifier: BSD-3-Clause
"""A client, on OpenSSL, that sees whether the server says that it ends an encrypted connection:
kernel_tls_end.py PORT CERTIFICATES CONTROL"""
import ssl
import sys

import control
from raw_nbd import ACK, DISC, FIXED, GO, READ, SIMPLE, STARTTLS, Raw, go_data, option

port, certificates, control_socket = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{certificates}/ca-cert.pem")
context.load_cert_chain(f"{certificates}/client-cert.pem", f"{certificates}/client-key.pem")
client = Raw(port)
client.greeting()
client.send(FIXED + option(STARTTLS))
assert client.option_reply()[1] == ACK
# An end that was not said is an error, which Python hides by default.
context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
client.socket = context.wrap_socket(client.socket, server_hostname="localhost", suppress_ragged_eofs=False)
client.form = SIMPLE
client.send(option(GO, go_data()))
while client.option_reply()[:2] != (GO, ACK):
    pass
# The server asks the kernel when nothing is in flight.
for _ in range(10):
    client.request(READ, 0, 512)
    assert client.reply(512)[1] == 0
said = control.status(control_socket)["connections"][0]["tls"]
assert said.endswith(" kernel"), said
client.request(DISC)
assert client.socket.recv(1) == b""
