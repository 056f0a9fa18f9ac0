# SPDX-License-Identifier: BSD-3-Clause
"""A section of the report that is made of cells and servers, with its tables and plots."""

from typing import NamedTuple

import cell as cell_module
import plot
import rounds as rounds_module
import server as server_module
import table


class Grid(NamedTuple):
    key: str  # such as "S4"; the names of its files begin with it
    title: str
    text: str  # what the section shows, and how to read it
    cells: tuple  # names
    servers: tuple  # labels
    baseline: str
    pairs: tuple  # pairs (ours, theirs) to compare
    raw: str = ""  # fio's engine for devices and the image itself; "": the best one
    memory: bool = False  # also tables of the page cache, and of the machine's context switches
    over: str = ""  # plots over "connections", instead of one bar for each server


def servers_make(labels, programs, key, failures):
    """The servers that can be measured; the failures get the reasons for the others."""
    servers = []
    for label in labels:
        one = server_module.Server(label, programs, [])
        reason = one.unavailable()
        if reason is None:
            servers.append(one)
        else:
            failures.append(rounds_module.Failure(f"all of {key}", label, reason))
    return servers


def grid_run(grid, bench):
    """Measures and reports; after an interruption, reports what was measured before."""
    report, settings = bench.report, bench.settings
    cells = [cell_module.cell_parse(name) for name in grid.cells]
    servers = servers_make(grid.servers, bench.programs, grid.key, report.failures)
    rounds = rounds_module.Rounds(
        bench.image, bench.scratch, settings.runs, settings.seconds, grid.raw or bench.raw, report.failures, bench.load
    )
    try:
        rounds.run_all(cells, servers, _Tagged(bench.sheet, grid.key))
    finally:
        _report(grid, report, cells, rounds)


class _Tagged:
    """The section's rows of a sheet that several sections share."""

    def __init__(self, sheet, key):
        self.sheet = sheet
        self.key = key

    def add(self, run):
        self.sheet.add({"section": self.key} | run)


def _report(grid, report, cells, rounds):
    runs = rounds.runs
    report.add(f"## {grid.key}: {grid.title}", "")
    line = table.headline(runs, cells[0], grid.pairs[0], plot.legend) if cells else None
    if line:
        report.add(line, "")
    report.add(grid.text, "")
    if not runs:
        report.add("Nothing could be measured; the reasons are at the end.", "")
        return
    report.add(f"{rounds.count} runs of each, of {rounds.seconds:g} s at most. {table.noise(runs)}.", "")
    report.add("IOPS:", "", *table.matrix_table(runs, cells, grid.servers))
    if grid.memory:
        _memory(report, runs, cells, grid.servers)
    flushed = [cell for cell in cells if cell.workload.startswith("flush")]
    if flushed:
        report.add(
            "Writes per flush, as they were sent (fio sends more flushes at greater depths than it is told to; –: "
            "none within the run):",
            "",
            *table.matrix_table(runs, flushed, grid.servers, "ios_per_flush"),
        )
    report.add("Ratio of IOPS:", "", *table.pairs_table(runs, cells, grid.pairs))
    cpu = [pair for pair in grid.pairs if pair[1].split(":")[0] not in server_module.DEVICES]
    if cpu:
        report.add(
            "Ratio of the server's CPU per I/O (less is better):",
            "",
            *table.pairs_table(runs, cells, cpu, "server_cpu_s_per_million", ("**dearer**", "**cheaper**")),
        )
    for ours, theirs in grid.pairs:
        words = [table.against(runs, cell, (ours, theirs))[1] for cell in cells]
        ratios = [table.ratio(*(table.select(runs, cell, one) for one in (ours, theirs)), "iops") for cell in cells]
        report.tally(grid.key, ours, theirs, [word for word in words if word], [r for r in ratios if r is not None])
    _plots(grid, report, runs, cells)
    failed = {(f.what, f.label) for f in report.failures}
    failed |= {(cell.name, f.label) for cell in cells for f in report.failures if f.what == f"all of {grid.key}"}
    report.add(*table.cells_table(runs, cells, grid.servers, grid.baseline, failed))


def _memory(report, runs, cells, servers):
    report.add(
        "Context switches of the whole machine per I/O, client and kernel threads included:",
        "",
        *table.matrix_table(runs, cells, servers, "machine_switches_per_io"),
    )
    report.add(
        "Growth of Cached in /proc/meminfo, MB:",
        "",
        *table.matrix_table(runs, cells, servers, "meminfo_cached_growth", 1e6),
    )
    report.add(
        "Growth of Buffers in /proc/meminfo, MB:",
        "",
        *table.matrix_table(runs, cells, servers, "meminfo_buffers_growth", 1e6),
    )
    report.add(
        "Growth of the image's own part of the page cache, MB:",
        "",
        *table.matrix_table(runs, cells, servers, "cache_growth", 1e6),
    )


def _plots(grid, report, runs, cells):
    name = f"{grid.key.lower()}-iops"
    if grid.over:
        series = {
            server: {
                getattr(cell, grid.over): s
                for cell in cells
                if (s := table.spread(table.select(runs, cell, server), "iops"))
            }
            for server in grid.servers
        }
        series = {label: points for label, points in series.items() if points}
        report.plot(plot.lines_draw, name, f"{grid.key}: {grid.title}", grid.over, "IOPS", series)
        return
    for workload in dict.fromkeys(cell.workload for cell in cells):
        mine = [cell for cell in cells if cell.workload == workload]
        if len({cell.workload for cell in cells}) == len(cells):
            mine = cells  # one bar for each workload: all in one plot
        suffix = "" if mine is cells else f"-{workload}"
        for column, what in (("iops", "IOPS"), ("server_cpu_s_per_million", "server CPU, us per I/O")):
            series = {
                server: [table.spread(table.select(runs, cell, server), column) for cell in mine]
                for server in grid.servers
            }
            series = {label: values for label, values in series.items() if any(values)}
            if series:
                kind = "iops" if column == "iops" else "cpu"
                report.plot(
                    plot.bars_draw,
                    f"{grid.key.lower()}{suffix}-{kind}",
                    f"{grid.key}: {grid.title} ({what})",
                    what,
                    [cell.words for cell in mine],
                    series,
                )
        if mine is cells:
            break
