# SPDX-License-Identifier: BSD-3-Clause
"""A proxy that ends all connections once, after so many bytes from the server, and makes a file then:
nbdloop-backup-survives-a-loss-while-it-verifies.py SOCKET SERVER BYTES FILE"""
import selectors
import socket
import sys

here, there, bytes_left, cut = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
selector = selectors.DefaultSelector()
others = {}


def end(sides):
    for side in sides:
        selector.unregister(side)
        side.close()
        del others[side]


with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(here)
    listener.listen()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            side = key.fileobj
            if side is listener:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(there)
                others.update({client: (server, False), server: (client, True)})
                selector.register(client, selectors.EVENT_READ)
                selector.register(server, selectors.EVENT_READ)
            elif side in others:
                other, is_server = others[side]
                data = side.recv(65536)
                if not data:
                    end((side, other))
                    continue
                if is_server and bytes_left:
                    bytes_left = max(0, bytes_left - len(data))
                    if not bytes_left:
                        open(cut, "x").close()
                        end(list(others))
                        continue
                other.sendall(data)
