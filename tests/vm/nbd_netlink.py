# SPDX-License-Identifier: BSD-3-Clause
"""A client that reconnects: attaches a server to /dev/nbdN, and gives the kernel a new connection whenever one
has died.  nbd-client does that from 3.27 on; in Debian 12, with netlink, it leaves when the device is there.

    nbd_netlink.py SOCKET INDEX TIMEOUT DEAD_TIMEOUT [BLOCK_SIZE [CONNECTIONS]]

TIMEOUT: seconds after which the kernel takes a connection that doesn't answer for dead.  Also what was under
way on a dead connection is sent again only then.  DEAD_TIMEOUT: how long requests wait for a new
connection.  Ends by SIGTERM, which detaches the device.

The numbers: include/uapi/linux/nbd-netlink.h, genetlink.h of the kernel; the handshake: doc/proto.md of NBD.
"""
import errno
import os
import signal
import socket
import struct
import sys
import time

CONNECT, DISCONNECT, RECONFIGURE, LINK_DEAD = 1, 2, 3, 4
INDEX, SIZE, BLOCK_SIZE, TIMEOUT, SERVER_FLAGS, CLIENT_FLAGS, SOCKETS, DEAD_TIMEOUT = range(1, 9)
SOCK_ITEM, SOCK_FD = 1, 1
FAMILY_ID, FAMILY_NAME, MCAST_GROUPS = 1, 2, 7
GROUP_NAME, GROUP_ID = 1, 2
GET_FAMILY, CONTROL_FAMILY = 3, 0x10
SOL_NETLINK, ADD_MEMBERSHIP = 270, 1


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def u32(kind, value):
    return attribute(kind, struct.pack("=I", value))


def u64(kind, value):
    return attribute(kind, struct.pack("=Q", value))


def attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


class Netlink:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.socket.bind((0, 0))
        self.sequence = 0

    def call(self, family, command, payload):
        """Sends a request, and returns the first answer's attributes; errors are exceptions."""
        self.sequence += 1
        body = struct.pack("=BBH", command, 1, 0) + payload
        request = struct.pack("=IHHII", 16 + len(body), family, 1 | 4, self.sequence, 0) + body
        self.socket.sendto(request, (0, 0))
        answer = {}
        while True:
            for kind, sequence, data in self.messages():
                if sequence != self.sequence:
                    continue
                if kind != 2:
                    answer = attributes(data[4:])
                    continue
                error = -struct.unpack_from("=i", data)[0]
                if error:
                    raise OSError(error, f"netlink command {command}: {os.strerror(error)}")
                return answer

    def messages(self):
        data = self.socket.recv(65536)
        while len(data) >= 16:
            length, kind, _, sequence, _ = struct.unpack_from("=IHHII", data)
            yield kind, sequence, data[16:length]
            data = data[(length + 3) & ~3:]


def read_all(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise OSError("the server has closed the connection")
        data += piece
    return data


def negotiate(path):
    """A connection that is ready for requests, the size of the export, its flags."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(path)
    magic, option_magic, _ = struct.unpack(">8s8sH", read_all(connection, 18))
    if (magic, option_magic) != (b"NBDMAGIC", b"IHAVEOPT"):
        raise OSError("this is no NBD server")
    go = struct.pack(">IH", 0, 0)
    connection.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 7, len(go)) + go)
    size = flags = None
    while True:
        _, _, kind, length = struct.unpack(">QIII", read_all(connection, 20))
        data = read_all(connection, length)
        if kind == 1:
            connection.settimeout(None)
            return connection, size, flags
        if kind == 3 and data[:2] == b"\0\0":
            size, flags = struct.unpack(">QH", data[2:12])
        elif kind & 1 << 31:
            raise OSError(f"the server refuses: {data.decode(errors='replace')}")


class Device:
    def __init__(self, path, index, timeout, dead_timeout, block_size=4096, connections=1):
        self.path, self.index = path, index
        self.netlink, self.events = Netlink(), Netlink()
        family = self.netlink.call(CONTROL_FAMILY, GET_FAMILY, attribute(FAMILY_NAME, b"nbd\0"))
        self.family = struct.unpack("=H", family[FAMILY_ID][:2])[0]
        # Before the first connection: no news of its death is lost.
        for group in attributes(family[MCAST_GROUPS]).values():
            number = struct.unpack("=I", attributes(group)[GROUP_ID])[0]
            self.events.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, number)
        ready = [negotiate(path) for _ in range(connections)]
        _, size, flags = ready[0]
        attach = (u32(INDEX, index) + u64(SIZE, size) + u64(BLOCK_SIZE, block_size) + u64(SERVER_FLAGS, flags) +
                  u64(TIMEOUT, timeout) + u64(DEAD_TIMEOUT, dead_timeout) + self.sockets(ready))
        # A device that is gone is busy for another moment, until its last user has closed it.
        end = time.monotonic() + 20
        while True:
            try:
                self.netlink.call(self.family, CONNECT, attach)
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
                time.sleep(0.1)
        for connection, _, _ in ready:
            connection.close()

    @staticmethod
    def sockets(ready):
        items = [attribute(SOCK_ITEM, u32(SOCK_FD, connection.fileno())) for connection, _, _ in ready]
        return attribute(SOCKETS, b"".join(items))

    def reconnect(self):
        while True:
            try:
                ready = negotiate(self.path)
                break
            except OSError as error:
                print(f"not yet: {error}", flush=True)
                time.sleep(0.5)
        self.netlink.call(self.family, RECONFIGURE, u32(INDEX, self.index) + self.sockets([ready]))
        ready[0].close()
        print("reconnected", flush=True)

    def run(self):
        print("attached", flush=True)
        while True:
            for kind, _, data in self.events.messages():
                if kind == self.family and data[0] == LINK_DEAD:
                    print("a connection is dead", flush=True)
                    # It is told a moment before the connection can be replaced.
                    time.sleep(0.2)
                    self.reconnect()

    def detach(self, *_):
        self.netlink.call(self.family, DISCONNECT, u32(INDEX, self.index))
        print("detached", flush=True)
        os._exit(0)


def main():
    device = Device(sys.argv[1], *map(int, sys.argv[2:]))
    signal.signal(signal.SIGTERM, device.detach)
    device.run()


main()
