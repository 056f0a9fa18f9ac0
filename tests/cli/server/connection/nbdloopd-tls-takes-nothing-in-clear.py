# SPDX-License-Identifier: BSD-3-Clause
"""What a client says without TLS, or with an old one, to a server that requires TLS or allows it:
nbdloopd-tls-takes-nothing-in-clear.py SOCKET required|allowed"""
import socket
import ssl
import struct
import sys

path, required = sys.argv[1], sys.argv[2] == "required"
EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO, STRUCTURED = 1, 2, 3, 5, 6, 7, 8
ACK, TLS_REQD = 1, 0x80000005


def connect():
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(path)
    greeting = receive(client, 18)
    assert greeting[:16] == b"NBDMAGICIHAVEOPT", greeting
    client.sendall(struct.pack(">I", 3))
    return client


def receive(client, length):
    data = b""
    while len(data) < length:
        more = client.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def option(number, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data


def reply(client):
    magic, _, kind, length = struct.unpack(">QIII", receive(client, 20))
    assert magic == 0x3E889045565A9, hex(magic)
    receive(client, length)
    return kind


def ends(client):
    try:
        return client.recv(1000) == b""
    except ConnectionResetError:
        return True


# Required means required: for every option but ABORT.
go = struct.pack(">IH", 0, 0)
if required:
    client = connect()
    for number, data in ((LIST, b""), (INFO, go), (GO, go), (STRUCTURED, b""), (1000, b"x")):
        client.sendall(option(number, data))
        assert reply(client) == TLS_REQD, number
    client.sendall(option(ABORT))
    assert reply(client) == ACK
    client = connect()
    client.sendall(option(EXPORT_NAME))
    assert ends(client), "an export without TLS"

# Bytes in clear together with STARTTLS (CVE-2021-3716): no option of them is carried out.
client = connect()
client.sendall(option(STARTTLS) + option(LIST))
assert reply(client) == ACK
assert ends(client), "the server went on after bytes in clear"

# The same after the agreement: they are no TLS.
client = connect()
client.sendall(option(STARTTLS))
assert reply(client) == ACK
client.sendall(option(LIST))
said = client.recv(1000)
assert said == b"" or said[0] == 21, said  # an alert
assert ends(client) or ends(client)

# A client that knows no protocol after TLS 1.1 gets an alert.
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_ciphers("ALL:@SECLEVEL=0")
context.minimum_version = ssl.TLSVersion.TLSv1
context.maximum_version = ssl.TLSVersion.TLSv1_1
client = connect()
client.sendall(option(STARTTLS))
assert reply(client) == ACK
try:
    context.wrap_socket(client)
    raise SystemExit("TLS 1.1 is accepted")
except ssl.SSLError as error:
    assert "PROTOCOL_VERSION" in str(error).upper().replace(" ", "_"), error
