# SPDX-License-Identifier: BSD-3-Clause
"""S1, the kernel's part: the kernel's own client, in a virtual machine (tests/vm), whose claim prints the source's table."""

import os
import re
import subprocess

import machine
import rounds as rounds_module
import table

SERIES = "6.12"
CLAIM = "direct-io-leaves-page-cache-to-applications"
SERVERS = {"nbdkit": "loop", "nbdloopd": "nbdloopd"}       # tests/vm/run's names: ours
COLUMNS = ("server", "device", "how", "buffers_mib", "cached_mib", "image_mib", "switches", "write_iops", "randread_iops",
           "randwrite_iops", "read_iops")
LIMIT_SECONDS = 1800

TEXT = (
    "The same through the kernel's own client, as in the source: four psync jobs with files in ext4 on `/dev/nbd0`, and on the "
    f"kernel's loop device, in a virtual machine with Debian's Linux {SERIES} (tests/vm/{CLAIM}.sh, which fails if direct I/O "
    "keeps the image in memory). One run of each: the machine is emulated, so its rates only tell which is which; memory, in MiB, and "
    "context switches are what it is about.")


class VmError(Exception):
    pass


def claim_run(server, logs):
    """Rows of the claim's table, as dicts of COLUMNS; VmError has the reason where there are none."""
    place = next((p for p in machine.build_places() if os.path.exists(os.path.join(p, "tests/vm/Makefile"))), machine.TOP)
    environment = os.environ | {"VM_LOGS": logs, "top_builddir": os.path.abspath(place)}
    try:
        done = subprocess.run([os.path.join(machine.TOP, "tests/vm/run"), SERIES, CLAIM, server], stdin=subprocess.DEVNULL,
                              env=environment, capture_output=True, text=True, errors="replace", check=False,
                              timeout=LIMIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise VmError(str(e)) from None
    suffix = "" if server == "nbdkit" else f"-{server}"
    said = machine.read(os.path.join(logs, f"{CLAIM}-{SERIES}{suffix}.out")) or ""
    if done.returncode != 0:
        raise VmError(f"tests/vm/run {SERIES} {CLAIM} {server} ended with status {done.returncode}: "
                      + " ".join((done.stderr.strip() or said)[-400:].split()))
    return rows_parse(said, SERVERS[server])


def rows_parse(said, server):
    rows = []
    for match in re.finditer(r"^(nbd|loop), (buffered|direct)((?:\s+-?\d+){8})\s*$", said, re.M):
        what = {"server": server if match[1] == "nbd" else "loop device", "device": match[1], "how": match[2]}
        rows.append(what | dict(zip(COLUMNS[3:], map(int, match[3].split()))))
    if len(rows) != 4:
        raise VmError(f"the claim's table has {len(rows)} rows that can be read, not 4")
    return rows


class KernelClient:
    def __init__(self, bench):
        self.bench = bench
        self.rows = []
        self.failures = []
        self.sheet = bench.report.sheet("vm.csv", COLUMNS) if bench.settings.vm else None

    def run(self):
        if not self.bench.settings.vm:
            return
        for server in SERVERS:
            rounds_module.progress(f"S1 in a virtual machine, {server}")
            try:
                rows = claim_run(server, self.bench.scratch)
            except VmError as e:
                self.bench.report.failures.append(rounds_module.Failure("S1, virtual machine", server, str(e)))
                self.failures.append(f"{server}: {e}")
                continue
            for row in rows:
                self.sheet.add(row)
            self.rows += rows

    def report(self):
        report = self.bench.report
        report.add("## S1: through the kernel's client", "", TEXT, "")
        if not self.bench.settings.vm:
            report.add("Not run: only with `--vm`.", "")
            return
        report.add(*[f"**Not measured** with {failure}" for failure in self.failures], "")
        if self.rows:
            names = ["server", "image"] + [c.replace("_mib", ", MiB").replace("_iops", " IOPS") for c in COLUMNS[3:]]
            report.add(*table.head(names, 2),
                       *[table.row([row["server"], row["how"]] + [f"{row[c]:,}" for c in COLUMNS[3:]]) for row in self.rows], "")
