# SPDX-License-Identifier: BSD-3-Clause
"""The server's processor time for a read, alone and beside clients that take no replies.

    PROGRAM PORT PID
"""
import socket
import sys
import time

from process import processor_time
from raw_nbd import DISC, FLUSH, READ, SIMPLE, WRITE, Raw, request

MIB = 1 << 20
port, pid = sys.argv[1:]


def time_of_reads(client, count=500):
    before = processor_time(pid)
    for _ in range(count):
        client.request(READ, 0, 4096)
        client.reply(4096)
    return (processor_time(pid) - before) / count


def half_closed():
    client = Raw(port, SIMPLE)
    # The socket's receive buffer grows with the data that it receives.
    for _ in range(40):
        client.send(request(SIMPLE, WRITE, 0, MIB) + bytes(MIB))
    for _ in range(40):
        client.reply()
    client.send(request(SIMPLE, READ, 0, 65536) * 600)
    time.sleep(0.3)
    client.send(request(SIMPLE, FLUSH) * (2 * MIB // 28) + request(SIMPLE, DISC))
    client.socket.shutdown(socket.SHUT_WR)
    return client


honest = Raw(port, SIMPLE)
time_of_reads(honest)
alone = time_of_reads(honest)
others = [half_closed() for _ in range(4)]
time.sleep(2)
beside = time_of_reads(honest)
print(f"{alone * 1e6:.0f} us for a read alone, {beside * 1e6:.0f} us beside the others")
assert beside < 6 * alone + 50e-6
