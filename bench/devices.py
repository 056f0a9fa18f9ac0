# SPDX-License-Identifier: BSD-3-Clause
"""Devices of the kernel's NBD client, beside loop devices: tests/vm/device-rates.sh measures them in user-mode Linux.

User-mode Linux runs programs at the processor's own speed, on one processor. But its system calls, its page faults
and its switches between processes cost several times as much as on hardware. So ratios between NBD servers carry over.
Those to the loop device, which has no second process, are a lower bound.
"""

import os
import re

import plot
import table
import vm

SERIES = "uml"
CLAIM = "device-rates"
COLUMNS = ("work", "device", "run", "rate", "switches")

# Works whose names begin so share a plot.
PLOTS = {"4 KiB random read": "device-reads", "4 KiB random write": "device-writes", "1 MiB": "device-large"}


def measure(logs, runs, seconds, devices=(), cells=""):
    """Runs of all devices, dicts of COLUMNS, and the KiB that each device left in the page cache."""
    os.environ.update(
        NBDLOOP_ROUNDS=str(runs), NBDLOOP_SECONDS=f"{seconds:g}", NBDLOOP_DEVICES=" ".join(devices), NBDLOOP_CELLS=cells
    )
    said = vm.claim_run(CLAIM, "nbdloopd", logs, SERIES)
    rows, cached = [], {}
    for work, device, rate, switches in re.findall(r"^rate: (.*): (.*): (\d+): ([\d.]+)$", said, re.M):
        run = 1 + sum(r["work"] == work and r["device"] == device for r in rows)
        rows.append({"work": work, "device": device, "run": run, "rate": int(rate), "switches": float(switches)})
    for device, kib in re.findall(r"^cached: (.*): (\d+)$", said, re.M):
        cached[device] = max(cached.get(device, 0), int(kib))
    if not rows:
        raise vm.VmError(f"the machine tells no rates: {said[-400:]}")
    return rows, cached


def names(rows, column):
    return list(dict.fromkeys(r[column] for r in rows))


def select(rows, work, device):
    return [r for r in rows if r["work"] == work and r["device"] == device]


def table_make(rows, cached):
    """The lines of a table: requests per second of the first device, and its ratio to each other one."""
    devices = names(rows, "device")
    first, others = devices[0], devices[1:]
    head = ["work", f"{first}, requests/s, median (min–max)"] + [f"to {d}" for d in others] + ["switches per request"]
    lines = table.head(head, 1)
    for work in names(rows, "work"):
        own = select(rows, work, first)
        ratios = [table.ratio(own, select(rows, work, other), "rate") for other in others]
        lines.append(
            table.row(
                [work, table.with_range(table.spread(own, "rate"))]
                + ["–" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
                + [table.plain(table.spread(own, "switches"))]
            )
        )
    lines += ["", "MiB of the image in the page cache: " + ", ".join(f"{d} {k / 1024:.0f}" for d, k in cached.items())]
    return lines


class Devices:
    """The section of bench/run."""

    def __init__(self, bench):
        self.bench = bench
        self.rows, self.cached = [], {}
        self.failure = None
        self.sheet = bench.report.sheet("devices.csv", COLUMNS) if bench.settings.vm else None

    def run(self):
        if not self.bench.settings.vm:
            return
        try:
            self.rows, self.cached = measure(self.bench.scratch, self.bench.settings.runs, self.bench.settings.seconds)
        except vm.VmError as e:
            self.failure = f"**Not measured**: {e}"
            return
        for row in self.rows:
            self.sheet.add(row)

    def report(self):
        report = self.bench.report
        report.add(
            "## Device: /dev/nbd0 beside its peers and the loop device",
            "",
            "`nbdloop attach`, nbd-client with `nbdkit file` and with qemu-nbd, and loop devices, all with direct I/O "
            "(`loop-buffered`: without), in user-mode Linux. Compare the NBD servers: the loop device has no second "
            "process, and switches between processes are slow there.",
            "",
        )
        if not self.bench.settings.vm:
            report.add("Not run: only with `--vm`.", "")
        elif not self.rows:
            report.add(self.failure or "**Not measured**: the run was interrupted.", "")
        else:
            report.add(*table_make(self.rows, self.cached), "")
            for size, name in PLOTS.items():
                works = [w for w in names(self.rows, "work") if w.startswith(size)]
                if works:
                    self.plot(name, size, works)

    def plot(self, name, size, works):
        series = {
            device: [table.spread(select(self.rows, work, device), "rate") for work in works]
            for device in names(self.rows, "device")
        }
        groups = [work.removeprefix(size).lstrip(" ,") for work in works]
        self.bench.report.plot(plot.bars_draw, name, f"{size}s of a device", "requests per second", groups, series)
