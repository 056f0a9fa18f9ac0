# SPDX-License-Identifier: BSD-3-Clause
"""What is measured: a cell is one workload at one depth, over a number of connections.

The depth is per connection, as it is in the kernel's client: four connections
at depth 32 keep up to 128 requests in flight.
"""

import re
from typing import NamedTuple, Optional

KIB = 1024
MIB = 1024 * KIB

# name: (fio's rw=, block size, title)
WORKLOADS = {
    "randread-4k": ("randread", 4 * KIB, "4 KiB random read"),
    "randwrite-4k": ("randwrite", 4 * KIB, "4 KiB random write"),
    "read-4k": ("read", 4 * KIB, "4 KiB sequential read"),
    "write-4k": ("write", 4 * KIB, "4 KiB sequential write"),
    "read-1m": ("read", MIB, "1 MiB sequential read"),
    "write-1m": ("write", MIB, "1 MiB sequential write"),
}
DEPTHS = (1, 8, 32, 128)
CONNECTIONS = (1, 4)

# The cells of --quick: those that the project's goals are stated in.
QUICK = (
    "randread-4k/d1/c1",
    "randread-4k/d32/c1",
    "randread-4k/d128/c1/t64",
    "randwrite-4k/d32/c1",
    "read-1m/d1/c1",
    "read-1m/d8/c1",
    "write-1m/d8/c1",
)


class Cell(NamedTuple):
    workload: str
    depth: int
    connections: int
    threads: Optional[int]      # nbdkit -t, None: nbdkit's default (16 per connection)

    @property
    def name(self):
        parts = [self.workload, f"d{self.depth}", f"c{self.connections}"]
        if self.threads is not None:
            parts.append(f"t{self.threads}")
        return "/".join(parts)

    @property
    def rw(self):
        return WORKLOADS[self.workload][0]

    @property
    def block(self):
        return WORKLOADS[self.workload][1]

    @property
    def title(self):
        return WORKLOADS[self.workload][2]

    @property
    def writes(self):
        return self.rw in ("write", "randwrite")


def cells_all(threads):
    """Every cell; `threads` are the values of -t tried beside nbdkit's default.

    More threads than the default can only matter where more requests than
    that are in flight, so they are tried at the greatest depth only.
    """
    cells = []
    for workload in WORKLOADS:
        for connections in CONNECTIONS:
            for depth in DEPTHS:
                cells.append(Cell(workload, depth, connections, None))
        for count in threads:
            cells.append(Cell(workload, max(DEPTHS), 1, count))
    return cells


def cells_chosen(threads, pattern, quick):
    """The cells that a regular expression (anywhere in the name) chooses."""
    cells = cells_all(threads)
    if pattern is not None:
        return [c for c in cells if re.search(pattern, c.name)]
    if quick:
        return [c for c in cells if c.name in QUICK]
    return cells
