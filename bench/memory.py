# SPDX-License-Identifier: BSD-3-Clause
"""Servers without a disk: an image in memory, and load.c, a client that costs less than the server."""

import os
import subprocess

import server as server_module

DIRECTORY = "/dev/shm"
IMAGE_SIZE = 64 << 20
MODES = ("batched", "alone")  # how load.c sends its requests


class MemoryImage:
    """A file in memory, which is removed with its directory."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "disk.img")
        with open(self.path, "wb") as f:
            f.write(os.urandom(IMAGE_SIZE))


def servers_make(names, programs):
    """tmpfs has no direct I/O."""
    servers = [server_module.Server(name, programs, ["direct-io=off"]) for name in names]
    for one in servers:
        if one.kind == "nbdloopd":
            one.parameters.append("direct-io=off")
    return servers


def run_one(load, one, image, directory, *, mode, connections, depth, length, seconds, kind="read", where=None):
    """Runs one server once; returns requests per second, and the cost of each in server and client.

    `where`: the load's argument; None: the server's socket.
    """
    running = server_module.Running(one, image, directory, None)
    try:
        before = running.live_switches()
        cpu = running.cpu_seconds()
        done = subprocess.run(
            [load, where or running.socket, str(connections), str(depth), str(length), f"{seconds:g}", mode, kind],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise server_module.ServerError(f"{one.label}: {done.stderr.strip()}\n{running.said()}")
        answered, took, client_cpu = (float(word) for word in done.stdout.split())
        if answered == 0:
            raise server_module.ServerError(f"{one.label}: no request was answered in {seconds:g} s")
        running.quiesce()
        cpu = running.cpu_seconds() - cpu
        usage = running.stop()
    finally:
        running.kill()
    switches = usage.ru_nvcsw + usage.ru_nivcsw - sum(before)
    return {
        "server": one.label,
        "mode": mode,
        "connections": connections,
        "rate": answered / took,
        "server_us": cpu / answered * 1e6,
        "client_us": client_cpu / answered * 1e6,
        "switches": switches / answered,
    }
