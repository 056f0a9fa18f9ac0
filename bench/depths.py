# SPDX-License-Identifier: BSD-3-Clause
"""S2: the engine's ways to the kernel on one thread, by depth, and the cost of submitting one read."""

import engine as engine_module
import plot
import rounds as rounds_module
import table

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
SUBMISSION_DEPTHS = (1, 32)
BASE = "io_uring"

WAYS = {
    "threads": "plain preadv(2) by threads of the context",
    "aio": "Linux AIO",
    "io_uring": "io_uring, plain: neither files nor buffers are registered",
    "files": "io_uring with registered files",
    "buffers": "io_uring with registered files and buffers, as in the plugin: the data is copied from there",
    "polled": "the same rings, files registered, polled for completions",
    "polled-buffers": "polled, files and buffers registered, with the copy",
}

TEXT = (
    'After the patchset "Support for polled aio" (it became io_uring): one thread, 4 KiB random reads with direct '
    "I/O, by "
    "the engine alone (bench/engine_load.c), without sockets. A way that isn't possible here has its reason at the "
    "end. The engine uses registered buffers only where it has to copy anyway, since the caller's memory isn't "
    "aligned: the copy is in their figures. Latencies are medians, in us."
)


class Depths:
    """Runs the engine's load on the bench's image; leaves out a way that has failed."""

    def __init__(self, bench, seconds):
        self.bench = bench
        self.seconds = seconds
        self.sheet = bench.engine_sheet
        self.ways = list(WAYS)
        self.rates = []
        self.submissions = []

    def _one(self, way, depth, round_, position, submission):
        report = self.bench.report
        try:
            run = self.bench.engine.run(self.bench.image.path, self.seconds, way, depth=depth, submission=submission)
        except engine_module.EngineError as e:
            report.failures.append(rounds_module.Failure("all of S2", way, str(e)))
            self.ways.remove(way)
            return
        run |= {"part": "S2 submission" if submission else "S2", "run": round_, "position": position}
        self.sheet.add(run)
        (self.submissions if submission else self.rates).append(run)

    def run(self):
        count = self.bench.settings.runs
        self.bench.image.settle()
        for submission, depths in ((False, DEPTHS), (True, SUBMISSION_DEPTHS)):
            for depth in depths:
                for round_ in range(1, count + 1):
                    rounds_module.progress(
                        f"S2 depth {depth}, run {round_}/{count}{' of submission' if submission else ''}"
                    )
                    for position, way in enumerate(rounds_module.turns(self.ways, round_), 1):
                        self._one(way, depth, round_, position, submission)

    def report(self):
        report, ways = self.bench.report, [w for w in WAYS if any(r["way"] == w for r in self.rates)]
        report.add("## S2: ways to the kernel, by depth", "", TEXT, "", *[self._way(way) for way in WAYS], "")
        if not self.rates:
            report.add("Nothing could be measured; the reasons are at the end.", "")
            return
        report.add(f"{self.bench.settings.runs} runs of each, of {self.seconds:g} s.", "")
        for column, what in (
            ("iops", "IOPS"),
            ("p50_us", "Median latency, us"),
            ("cpu_ns_per_read", "CPU of the process, ns per read"),
        ):
            report.add(f"{what}:", "", *self._by_depth(ways, column))
        report.add(f"IOPS, ratio to `{BASE}`:", "", *self._ratios(ways))
        report.add(
            "Time to submit one read, ns: of the thread alone, until the kernel has all that was submitted together:",
            "",
            *self._submissions(),
        )
        for column, what in (("iops", "IOPS"), ("p50_us", "median latency, us")):
            series = {
                way: {
                    depth: table.spread(_select(self.rates, way, depth), column)
                    for depth in DEPTHS
                    if _select(self.rates, way, depth)
                }
                for way in ways
            }
            report.plot(
                plot.lines_draw,
                f"s2-{column.removesuffix('_us')}",
                f"S2: {what} by depth, one thread",
                "depth",
                what,
                series,
            )

    def _way(self, way):
        reasons = [f.reason for f in self.bench.report.failures if f.what == "all of S2" and f.label == way]
        return f"* `{way}`: {WAYS[way]}" + (f". **Not measured**: {reasons[0]}" if reasons else "")

    def _by_depth(self, ways, column):
        lines = table.head(["depth"] + ways, 1)
        for depth in DEPTHS:
            lines.append(
                table.row(
                    [str(depth)]
                    + [table.with_range(table.spread(_select(self.rates, way, depth), column)) for way in ways]
                )
            )
        return lines + [""]

    def _ratios(self, ways):
        others = [way for way in ways if way != BASE]
        lines = table.head(["depth"] + others, 1)
        verdicts = {way: [] for way in others}
        for depth in DEPTHS:
            base, fields = _select(self.rates, BASE, depth), []
            for way in others:
                text, word = table.ratio_text(_select(self.rates, way, depth), base, "iops")
                fields.append(text)
                verdicts[way].append(word)
            lines.append(table.row([str(depth)] + fields))
        for way in others:
            self.bench.report.tally("S2", way, BASE, [word for word in verdicts[way] if word])
        return lines + [""]

    def _submissions(self):
        ways = [w for w in WAYS if any(r["way"] == w for r in self.submissions)]
        lines = table.head(["together"] + ways, 1)
        for depth in SUBMISSION_DEPTHS:
            lines.append(
                table.row(
                    [str(depth)]
                    + [
                        table.with_range(table.spread(_select(self.submissions, way, depth), "submit_ns"))
                        for way in ways
                    ]
                )
            )
        return lines + [""]


def _select(runs, way, depth):
    return [r for r in runs if r["way"] == way and r["depth"] == depth]
