# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of servers on one image: A B C, then B C A, so that a slow minute of the machine affects
all of them.
"""

import subprocess
import sys

import client
import machine
import server as server_module

# The most bytes of a warm-up's requests on one connection.
WARM_UP_BYTES = 16 << 20

# nbdkit's threads take turns: after this many requests, each has had one.
WARM_UP_SECONDS = 0.1

# Errors of one server, not of the bench.
FAILURES = (client.ClientError, server_module.ServerError)


class Failure:
    """A measurement that was not possible, and the reason."""

    def __init__(self, what, label, reason):
        self.what = what  # a cell's name, or a section's
        self.label = label  # the server's label
        self.reason = reason


def turns(items, round_):
    """The order of the servers in a round (from 1): no server always follows the same one."""
    shift = (round_ - 1) % max(len(items), 1)
    return items[shift:] + items[:shift]


class Rounds:
    """`failures`: a list for failed measurements; without it, the first failure ends the bench."""

    def __init__(self, image, directory, runs, seconds, raw, failures=None, load=None):
        self.image = image
        self.directory = directory
        self.count = runs
        self.seconds = seconds
        self.raw = raw  # fio's engine if there is no server, else None
        self.failures = failures
        self.load = load  # path of the program load, which warms servers up, or None
        self.runs = []
        self.said = {}  # by label: the first line that a server printed

    def run_all(self, cells, servers, sheet):
        for at, cell in enumerate(cells, 1):
            failed = set()
            for round_ in range(1, self.count + 1):
                for position, one in enumerate(turns(servers, round_), 1):
                    if one.label in failed:
                        continue
                    progress(f"cell {at}/{len(cells)} {cell.name}, run {round_}/{self.count}, {one.label}")
                    try:
                        run = self.run_one(cell, one, round_, position)
                    except FAILURES + (OSError,) as e:  # a server that died has no /proc
                        if self.failures is None:
                            raise
                        failed.add(one.label)
                        self.failures.append(Failure(cell.name, one.label, str(e)))
                        continue
                    self.runs.append(run)
                    sheet.add(run)

    def run_one(self, cell, one, round_, position):
        run = {
            "cell": cell.name,
            "workload": cell.workload,
            "block": cell.block,
            "depth": cell.depth,
            "connections": cell.connections,
            "threads": cell.threads,
            "server": one.label,
            "run": round_,
            "position": position,
        }
        run["cached_before"] = self.image.settle()
        running = device = None
        try:
            if one.kind == "raw":
                target = client.target_raw(self.image.path, self.raw)
            elif one.kind == "loop-device":
                device = server_module.LoopDevice(one, self.image)
                target = client.target_raw(device.path, self.raw)
            else:
                running = server_module.Running(one, self.image, self.directory, cell.threads)
                target = client.target_nbd(running.uri)
            meter = server_module.Meter(running, self.image)
            if running is not None and self.load is not None and one.kind not in server_module.DAEMONS:
                self.warm_up(running, cell)
            command = client.fio_command(cell, self.image, self.seconds, round_, target)
            meter.begin()
            before = machine.CpuTotals()
            run.update(client.fio_run(command, self.seconds))
            after = machine.CpuTotals()
            run.update(meter.end())
        except client.ClientError as e:
            said = running.said() if running else ""
            raise client.ClientError(f"{cell.name}, {one.label}: {e}\n{said}".strip()) from None
        finally:
            if running is not None:
                running.kill()
            if device is not None:
                device.remove()
        if running is not None:
            self.said.setdefault(one.label, running.said().split("\n")[0])
        derive(run, cell, before, after)
        return run

    def warm_up(self, running, cell):
        """Warms a server up, with as many requests as the cell has in flight: a short run then
        doesn't contain what the server sets up once.

        A server that forks serves each connection by a new process: nothing would stay warm.
        """
        length = min(cell.block, WARM_UP_BYTES // cell.depth)
        seconds = WARM_UP_SECONDS if running.server.kind in server_module.PLUGINS else 0
        command = [
            self.load,
            running.socket,
            str(cell.connections),
            str(cell.depth),
            str(length),
            str(seconds),
            "batched",
            "read",
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=client.GRACE_SECONDS
        )
        if done.returncode != 0:
            raise client.ClientError(f"the warm-up failed: {done.stderr.strip()}")
        running.quiesce()
        self.image.settle()


def derive(run, cell, before, after):
    """Adds the columns that are computed from others."""
    millions = run["ios"] / 1e6
    run["client_cpu_s_per_million"] = run["client_cpu_s"] / millions
    spent = run.pop("client_process_cpu_s") + run.get("server_cpu_s", 0)
    total = after.total - before.total
    run["elsewhere_cpu_share"] = max(0, after.busy - before.busy - spent) / total
    run["steal_share"] = (after.steal - before.steal) / total
    run["machine_switches_per_io"] = (after.switches - before.switches) / run["ios"]
    if "server_cpu_s" in run:
        run["server_cpu_s_per_million"] = run["server_cpu_s"] / millions
        if not cell.writes:
            run["disk_read_ratio"] = run["disk_read"] / run["bytes"]
        switches = run["switches_voluntary"] + run["switches_involuntary"]
        run["switches_per_io"] = switches / run["ios"]


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)  # overwrites the last
    elif text:
        print(text.strip(), file=sys.stderr, flush=True)
