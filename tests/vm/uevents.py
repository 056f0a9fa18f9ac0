# SPDX-License-Identifier: BSD-3-Clause
"""Prints what the kernel tells udev about block devices, a line each: "add nbd0p1".

Says "listening" first, and ends when it is killed.
"""
import socket

NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1


def main() -> None:
    events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT)
    # More than a burst of them.
    events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    events.bind((0, KERNEL_GROUP))
    print("listening", flush=True)
    while True:
        words = events.recv(16384).decode(errors="replace").split("\0")
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        if fields.get("SUBSYSTEM") == "block":
            print(fields.get("ACTION"), fields.get("DEVNAME"), flush=True)


main()
