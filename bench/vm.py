# SPDX-License-Identifier: BSD-3-Clause
"""Measurements that need another kernel or drive: claims of tests/vm, in a virtual machine, print
the source of a table.

The machine is emulated: its rates only show which way is faster.
"""

import os
import re
import subprocess

import machine
import rounds as rounds_module
import table

SERIES = "6.12"
LIMIT_SECONDS = 3600


class VmError(Exception):
    pass


def claim_run(claim, server, logs, series=SERIES):
    """A claim's output; VmError has the reason why the claim failed or could not run."""
    place = next(
        (p for p in machine.build_places() if os.path.exists(os.path.join(p, "tests/vm/Makefile"))), machine.TOP
    )
    environment = os.environ | {"VM_LOGS": logs, "top_builddir": os.path.abspath(place)}
    try:
        done = subprocess.run(
            [os.path.join(machine.TOP, "tests/vm/run"), series, claim, server],
            stdin=subprocess.DEVNULL,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise VmError(str(e)) from None
    suffix = "" if server == "nbdkit" else f"-{server}"
    said = machine.read(os.path.join(logs, f"{claim}-{series}{suffix}.out")) or ""
    if done.returncode != 0:
        raise VmError(
            f"tests/vm/run {series} {claim} {server} ended with status {done.returncode}: "
            + " ".join((done.stderr.strip() or said)[-400:].split())
        )
    return said


class Claim:
    """A section that is a claim's table. Its subclasses name the claim and parse its output."""

    name = title = text = ""
    key = ""
    servers = ("nbdkit",)
    columns = ()

    def __init__(self, bench):
        self.bench = bench
        self.rows = []
        self.failures = []
        self.sheet = bench.report.sheet(f"{self.key.lower()}-vm.csv", self.columns) if bench.settings.vm else None

    def run(self):
        if not self.bench.settings.vm:
            return
        for server in self.servers:
            rounds_module.progress(f"{self.key} in a virtual machine: {self.name}, {server}")
            try:
                rows = self.parse(claim_run(self.name, server, self.bench.scratch), server)
            except VmError as e:
                self.bench.report.failures.append(rounds_module.Failure(f"{self.key}, virtual machine", server, str(e)))
                self.failures.append(f"**Not measured** with {server}: {e}")
                continue
            for row in rows:
                self.sheet.add(row)
            self.rows += rows

    def parse(self, said, server):
        """Parses the claim's output into rows, dicts of the columns."""
        raise NotImplementedError

    def report(self):
        report = self.bench.report
        report.add(f"## {self.key}: {self.title}", "", self.text, "")
        if not self.bench.settings.vm:
            report.add("Not run: only with `--vm`.", "")
            return
        report.add(*self.failures, "")
        if self.rows:
            words = sum(isinstance(value, str) for value in self.rows[0].values())
            report.add(
                *table.head(list(self.columns), words),
                *[table.row([v if isinstance(v, str) else f"{v:,}" for v in row.values()]) for row in self.rows],
                "",
            )


class KernelClient(Claim):
    key = "S1"
    name = "direct-io-leaves-page-cache-to-applications"
    title = "through the kernel's client"
    text = (
        "The same through the kernel's own client, as in the source: four psync jobs with files in ext4 on "
        f"`/dev/nbd0`, and on the kernel's loop device, in a virtual machine with Debian's Linux {SERIES} "
        f"(tests/vm/{name}.sh, which fails if direct I/O keeps the image in memory). One run of each, in a machine "
        "that is emulated: memory, in MiB, and context switches are what it is about; the last four columns are IOPS."
    )
    servers = ("nbdkit", "nbdloopd")
    columns = (
        "device",
        "image",
        "Buffers",
        "Cached",
        "image cached",
        "switches",
        "write",
        "randread",
        "randwrite",
        "read",
    )

    def parse(self, said, server):
        rows = []
        for match in re.finditer(r"^(nbd|loop), (buffered|direct)((?:\s+-?\d+){8})\s*$", said, re.M):
            device = (
                "loop device" if match[1] == "loop" else {"nbdkit": "nbd, the plugin"}.get(server, f"nbd, {server}")
            )
            rows.append(dict(zip(self.columns, (device, match[2], *map(int, match[3].split())))))
        if len(rows) != 4:
            raise VmError(f"the table of {self.name} has {len(rows)} rows that can be read, not 4")
        return rows


class PolledDrive(Claim):
    key = "S2"
    name = "only-polled-reads-need-no-interrupts"
    title = "polling, on a drive with poll queues"
    text = (
        "The ways to the kernel on an NVMe drive with a poll queue, in a virtual machine with Debian's Linux "
        f"{SERIES} (tests/vm/{name}.sh, which fails if the drive's interrupts don't tell that polling is polling). "
        "The best of three runs. The machine is emulated: polling takes processor time there that the drive's "
        "emulation would need, and rates say nothing. p50 is in us, submission in ns; interrupts are those for 1000 "
        "reads."
    )
    columns = ("way", "depth", "IOPS", "p50", "submission", "interrupts")

    def parse(self, said, server):
        rows = [
            dict(zip(self.columns, (match[1], *map(int, match[2].split()))))
            for match in re.finditer(r"^([a-z_-]+)((?:\s+\d+){5})\s*$", said, re.M)
        ]
        if not rows:
            raise VmError(f"the table of {self.name} has no rows that can be read")
        return rows
