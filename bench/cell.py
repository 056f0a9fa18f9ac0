# SPDX-License-Identifier: BSD-3-Clause
"""A cell: one workload at one depth, over a number of connections.

The depth is per connection, as in the kernel's client: four connections at depth 32 keep up to 128
requests in flight.
"""

import re
from typing import NamedTuple, Optional

KIB = 1024
MIB = 1024 * KIB


class Workload(NamedTuple):
    rw: str                     # fio's rw=
    block: int                  # bytes of one request
    title: str
    options: tuple = ()         # more options of fio

    @property
    def writes(self):
        return self.rw != "read" and self.rw != "randread"

    @property
    def mixed(self):
        return self.rw == "randrw"


BLOCKS = {"4k": (4 * KIB, "4 KiB"), "64k": (64 * KIB, "64 KiB"), "1m": (MIB, "1 MiB")}

# name: (fio's rw=, title, more of fio's options)
PATTERNS = {
    "randread": ("randread", "{} random read", ()),
    "randwrite": ("randwrite", "{} random write", ()),
    "read": ("read", "{} sequential read", ()),
    "write": ("write", "{} sequential write", ()),
    "mixed": ("randrw", "{} random, 70 % reads and 30 % writes", ("--rwmixread=70",)),
    "flush": ("randwrite", "{} random write, a flush after every 32", ("--fsync=32",)),
}
WORKLOADS = {
    f"{pattern}-{block}": Workload(rw, size, title.format(text), options)
    for block, (size, text) in BLOCKS.items() for pattern, (rw, title, options) in PATTERNS.items()
}

# The workloads of bench/compare.
COMPARED = ("randread-4k", "randwrite-4k", "read-4k", "write-4k", "read-1m", "write-1m")
DEPTHS = (1, 8, 32, 128)
CONNECTIONS = (1, 4)

# The cells of --quick: the project's goals are stated for them.
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
    def words(self):
        """The name for people, such as "4 KiB random read, depth 64"."""
        parts = [self.title, f"depth {self.depth}"]
        if self.connections > 1:
            parts.append(f"{self.connections} connections")
        return ", ".join(parts)

    @property
    def kind(self):
        return WORKLOADS[self.workload]

    @property
    def block(self):
        return self.kind.block

    @property
    def title(self):
        return self.kind.title

    @property
    def writes(self):
        return self.kind.writes


def cell_parse(name):
    """The cell of this name; raises ValueError if it is no name of a cell."""
    match = re.fullmatch(r"([a-z]+-[0-9a-z]+)/d(\d+)/c(\d+)(?:/t(\d+))?", name)
    if match is None or match[1] not in WORKLOADS:
        raise ValueError(f"'{name}' is not WORKLOAD/dDEPTH/cCONNECTIONS[/tTHREADS]")
    return Cell(match[1], int(match[2]), int(match[3]), int(match[4]) if match[4] else None)


def cells_all(threads):
    """Every cell of bench/compare; `threads` are the values of -t tried beside nbdkit's default.

    More threads than the default can only matter where more requests than
    that are in flight, so they are tried at the greatest depth only.
    """
    cells = []
    for workload in COMPARED:
        for connections in CONNECTIONS:
            for depth in DEPTHS:
                cells.append(Cell(workload, depth, connections, None))
        for count in threads:
            cells.append(Cell(workload, max(DEPTHS), 1, count))
    return cells


def cells_chosen(threads, pattern, quick):
    """The cells whose names match a regular expression anywhere."""
    cells = cells_all(threads)
    if pattern is not None:
        return [c for c in cells if re.search(pattern, c.name)]
    if quick:
        return [c for c in cells if c.name in QUICK]
    return cells
