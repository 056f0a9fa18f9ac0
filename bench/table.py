# SPDX-License-Identifier: BSD-3-Clause
"""Runs in, Markdown out: medians, spread, ratios; and the CSV of the raw runs."""

import csv
import statistics
from typing import NamedTuple

# Column: what a person who reads only the CSV has to know.
COLUMNS = (
    "cell",                     # workload/depth per connection/connections[/threads]
    "workload", "block", "depth", "connections", "threads",
    "server",
    "run", "position",          # round, and place in the round, both from 1
    "seconds", "ios", "bytes", "iops", "mb_s",
    "ios_per_flush",            # empty: no flush
    "p50_us", "p99_us", "p999_us",
    "server_cpu_s", "server_cpu_s_per_million",
    "client_cpu_s", "client_cpu_s_per_million",
    "elsewhere_cpu_share",      # share of the machine's time: neither server nor client
    "steal_share",              # share of the machine's time: taken by the hypervisor
    "switches_voluntary", "switches_involuntary", "switches_per_io",
    "client_switches",
    "machine_switches_per_io",  # of the whole machine: server, client, kernel threads
    # Bytes that the server caused: with read-ahead, without data that was in the page cache.
    "disk_read", "disk_written", "disk_read_ratio",
    "cached_before", "cache_growth", "meminfo_cached_growth", "meminfo_buffers_growth", "rss_growth",     # bytes
)

NOT_MEASURED = "not measured"

# The fewest rounds that allow a verdict.
VERDICT_RUNS = 4


class Csv:
    """A CSV file that is written after each run, so that an interrupted bench keeps its runs."""

    def __init__(self, path, columns=COLUMNS):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, columns, lineterminator="\n")
        self.writer.writeheader()

    def add(self, run):
        plain = {k: round(v, 6) if isinstance(v, float) else v for k, v in run.items()}
        self.writer.writerow(plain)
        self.file.flush()

    def close(self):
        self.file.close()


class Spread(NamedTuple):
    median: float
    low: float
    high: float


def spread(runs, column):
    """The spread of a column; None if no run has it, as for raw, which has no server."""
    values = [r[column] for r in runs if r.get(column) is not None]
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values))


def number(value):
    """Three significant digits, without exponent or negative zero."""
    if abs(value) < 0.005:
        value = 0
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def with_range(s, decimals=number):
    return "–" if s is None else f"{decimals(s.median)} ({decimals(s.low)}–{decimals(s.high)})"


def plain(s, scale=1):
    return "–" if s is None else number(s.median / scale)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def head(names, left):
    """The header lines of a table; the first `left` columns are words, the others numbers."""
    return [row(names), row(["---"] * left + ["--:"] * (len(names) - left))]


def ratio(runs, base, column):
    """The ratio of the medians; None without a base."""
    ours, theirs = spread(runs, column), spread(base, column)
    if ours is None or theirs is None or theirs.median == 0:
        return None
    return ours.median / theirs.median


def ratio_pairs(runs, base, column):
    """The ratios of pairs that ran in the same round, in increasing order."""
    theirs = {r["run"]: r.get(column) for r in base}
    return sorted(r[column] / theirs[r["run"]] for r in runs
                  if theirs.get(r["run"]) and column in r)


def select(runs, cell, server):
    return [r for r in runs if r["cell"] == cell.name and r["server"] == server]


def cells_table(runs, cells, servers, baseline, failed=()):
    """One table per workload: a line for each cell and server.

    `failed` has pairs of a cell's name and a server that could not be measured there.
    """
    lines = []
    for workload in dict.fromkeys(c.workload for c in cells):
        mine = [c for c in cells if c.workload == workload]
        lines += [f"### {mine[0].title}", ""]
        lines += head(["server", "depth x conn.", "IOPS, median (min–max)", f"to {baseline}",
                       "MB/s", "p50 us", "p99 us", "p99.9 us",
                       "server CPU, s per million I/Os", f"to {baseline}",
                       "client CPU, s per million", "switches per I/O",
                       "disk reads per byte", "page cache, MB", "RSS, MB"], 2)
        for cell in mine:
            base = select(runs, cell, baseline)
            for server in servers:
                own = select(runs, cell, server)
                if own:
                    lines.append(cell_row(cell, server, own, base))
                elif (cell.name, server) in failed:
                    lines.append(row([server, cell_place(cell), NOT_MEASURED] + ["–"] * 12))
        lines.append("")
    return lines


def cell_place(cell):
    place = f"{cell.depth} x {cell.connections}"
    return place if cell.threads is None else f"{place}, -t {cell.threads}"


def cell_row(cell, server, own, base):
    speed = ratio(own, base, "iops")
    cpu = ratio(own, base, "server_cpu_s_per_million")
    return row([
        server, cell_place(cell),
        with_range(spread(own, "iops")), "–" if speed is None else f"{speed:.2f}",
        plain(spread(own, "mb_s")),
        plain(spread(own, "p50_us")), plain(spread(own, "p99_us")), plain(spread(own, "p999_us")),
        with_range(spread(own, "server_cpu_s_per_million")), "–" if cpu is None else f"{cpu:.2f}",
        plain(spread(own, "client_cpu_s_per_million")),
        plain(spread(own, "switches_per_io")),
        plain(spread(own, "disk_read_ratio")),
        plain(spread(own, "cache_growth"), 1e6), plain(spread(own, "rss_growth"), 1e6),
    ])


def verdict(pairs, more, less):
    """The verdict: a word only if every round agrees, because all else may be noise.

    Two equal servers agree by chance in one of eight cells with 4 rounds, and in one of sixteen
    with 5.
    """
    if len(pairs) < VERDICT_RUNS:
        return "too few runs"
    if pairs[0] > 1:
        return more
    if pairs[-1] < 1:
        return less
    return "even"


def summary_table(runs, cells, server, baseline):
    """Compares a server with the baseline, cell by cell, including losses."""
    lines = [f"### {server} against {baseline}", ""]
    lines += head(["cell", "IOPS", "", "server CPU per I/O", "", "p50", "switches per I/O"], 1)
    for cell in cells:
        own, base = select(runs, cell, server), select(runs, cell, baseline)
        if not own or not base:
            continue
        fields = [cell.words + (f", -t {cell.threads}" if cell.threads else "")]
        for column, more, less in (("iops", "faster", "**slower**"),
                                   ("server_cpu_s_per_million", "**dearer**", "cheaper")):
            value = ratio(own, base, column)
            pairs = ratio_pairs(own, base, column)
            if value is None or not pairs:      # raw has no server; or the bench was interrupted
                fields += ["–", "–"]
                continue
            fields += [f"{value:.2f} ({pairs[0]:.2f}–{pairs[-1]:.2f})", verdict(pairs, more, less)]
        fields.append(f"{ratio(own, base, 'p50_us'):.2f}")
        fields.append(f"{plain(spread(own, 'switches_per_io'))} to "
                      f"{plain(spread(base, 'switches_per_io'))}")
        lines.append(row(fields))
    return lines + [""]


def bare(word):
    """A verdict without its emphasis."""
    return word.strip("*")


def ratio_text(own, base, column, words=("**faster**", "**slower**")):
    """Compares runs; returns (text, verdict). The verdict is None if one of the servers was not measured."""
    value, ratios = ratio(own, base, column), ratio_pairs(own, base, column)
    if value is None or not ratios:
        return "–", None
    word = verdict(ratios, *words)
    return f"{value:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) {word}", word


def against(runs, cell, pair, column="iops", words=("**faster**", "**slower**")):
    """The same for two servers in a cell."""
    return ratio_text(select(runs, cell, pair[0]), select(runs, cell, pair[1]), column, words)


def pairs_table(runs, cells, pairs, column="iops", words=("**faster**", "**slower**")):
    """A line for each cell, a column for each (server, peer)."""
    lines = head(["cell"] + [f"{ours} to {theirs}" for ours, theirs in pairs], 1)
    for cell in cells:
        lines.append(row([cell.words] + [against(runs, cell, pair, column, words)[0] for pair in pairs]))
    return lines + [""]


def matrix_table(runs, cells, servers, column="iops", scale=1):
    """A line for each server, a column for each cell."""
    lines = head(["server"] + [cell.words for cell in cells], 1)
    for server in servers:
        fields = []
        for cell in cells:
            own = select(runs, cell, server)
            s = spread(own, column)
            fields.append(with_range(Spread(*(v / scale for v in s))) if s else "–" if own else NOT_MEASURED)
        lines.append(row([server] + fields))
    return lines + [""]


def headline(runs, cell, pair, words):
    """The section in one line: a cell's speed, and the CPU time if both servers have one. None: not measured.

    `words` makes the name for people from a server's label.
    """
    ours, theirs = (select(runs, cell, server) for server in pair)
    speed, cpu = (ratio(ours, theirs, column) for column in ("iops", "server_cpu_s_per_million"))
    if speed is None:
        return None
    end = "" if cpu is None else f" at {cpu:.2f} of its CPU time"
    return f"**{cell.words}: {words(pair[0])} makes {speed:.2f} times the IOPS of {words(pair[1])}{end}**"


def noise(runs):
    """Says how much other work disturbed the runs."""
    elsewhere, steal = spread(runs, "elsewhere_cpu_share"), spread(runs, "steal_share")
    return (f"CPU spent by neither server nor client (the kernel's write-back included): median "
            f"{elsewhere.median:.0%}, at most {elsewhere.high:.0%} of the machine; "
            f"taken by the hypervisor: median {steal.median:.0%}, at most {steal.high:.0%}")
