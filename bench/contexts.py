# SPDX-License-Identifier: BSD-3-Clause
"""S3, the engine's part: several contexts at the same time, and the cost of one shared counter."""

import os
import tempfile

import engine as engine_module
import memory
import plot
import rounds as rounds_module
import table

COUNTERS = ("own", "shared")

TEXT = (
    "The engine alone (bench/engine_load.c): each context has a thread and a part of the image of its own. Reads of "
    f"512 bytes of an image in memory ({memory.DIRECTORY}, direct-io=off), one after the other in each context, so "
    "that no disk hides what the processors cost each other. With `shared`, the bench program counts the reads under "
    "way in one counter for all, as the kernel did in i_dio_count: raised when a read begins, lowered when it ends. "
    "With `own`, the same instructions count in a line of the thread's own, which is how the engine does it "
    "everywhere. The difference is what one shared cache line costs; a count alone, without any read, shows how that "
    "grows with the number of processors that want the line."
)


def counts_make(processors):
    """1, 2, 4, ... up to the number of processors, but at least 8; and that number itself."""
    counts = {1 << n for n in range(20) if 1 << n <= max(8, processors)}
    return sorted(counts | {processors})


class Contexts:
    def __init__(self, bench, counts, seconds):
        self.bench = bench
        self.seconds = seconds
        self.counts = counts
        self.memory = []
        self.alone = []  # counts without reads
        self.disk = []

    def _one(self, runs, path, part, round_, position, way="files", **options):
        run = self.bench.engine.run(path, self.seconds, way, **options)
        run |= {"part": part, "run": round_, "position": position}
        self.bench.engine_sheet.add(run)
        runs.append(run)

    def run(self):
        try:
            with tempfile.TemporaryDirectory(prefix="bench-run-", dir=memory.DIRECTORY) as directory:
                self._run(memory.MemoryImage(directory))
        except (engine_module.EngineError, OSError) as e:
            self.bench.report.failures.append(rounds_module.Failure("S3, contexts", "engine", str(e)))

    def _run(self, image):
        count = self.bench.settings.runs
        self.bench.image.settle()
        for contexts in self.counts:
            for round_ in range(1, count + 1):
                rounds_module.progress(f"S3 contexts {contexts}, run {round_}/{count}")
                for position, counter in enumerate(rounds_module.turns(COUNTERS, round_), 1):
                    self._one(
                        self.memory,
                        image.path,
                        "S3 memory",
                        round_,
                        position,
                        contexts=contexts,
                        length=512,
                        direct=False,
                        counter=counter,
                    )
                    self._one(
                        self.alone,
                        image.path,
                        "S3 counter",
                        round_,
                        position,
                        "nothing",
                        contexts=contexts,
                        length=512,
                        direct=False,
                        counter=counter,
                    )
                self._one(self.disk, self.bench.image.path, "S3 disk", round_, 3, contexts=contexts, depth=32)

    def report(self):
        report = self.bench.report
        report.add("## S3: contexts, and one shared counter", "", TEXT, "")
        if not self.disk:
            report.add("Nothing could be measured; the reasons are at the end.", "")
            return
        report.add(
            f"{self.bench.settings.runs} runs of each, of {self.seconds:g} s, on "
            f"{len(os.sched_getaffinity(0))} processors.",
            "",
        )
        report.add(*self._table())
        for runs, column, name, what in (
            (self.memory, "iops", "s3-contexts", "reads in memory, per second"),
            (self.alone, "cpu_ns_per_read", "s3-counter", "a count alone, ns"),
        ):
            series = {
                f"{counter} counter": {
                    n: table.spread(_select(runs, n, counter), column) for n in self.counts if _select(runs, n, counter)
                }
                for counter in COUNTERS
            }
            report.plot(plot.lines_draw, name, f"S3: {what}, over contexts", "contexts", what, series)
        report.add("Contexts on the disk: 4 KiB random reads with direct I/O, 32 under way in each:", "", *self._disk())

    def _table(self):
        lines = table.head(
            [
                "contexts",
                "reads/s, own",
                "reads/s, shared",
                "shared to own",
                "CPU, ns per read, own",
                "CPU, ns per read, shared",
                "shared to own",
                "a count alone, ns, own",
                "shared",
                "scaling, own",
                "scaling, shared",
            ],
            1,
        )
        first = {counter: table.spread(_select(self.memory, self.counts[0], counter), "iops") for counter in COUNTERS}
        for contexts in self.counts:
            own, shared = (_select(self.memory, contexts, counter) for counter in COUNTERS)
            if not own or not shared:
                continue
            lines.append(
                table.row(
                    [
                        str(contexts),
                        table.with_range(table.spread(own, "iops")),
                        table.with_range(table.spread(shared, "iops")),
                        table.ratio_text(shared, own, "iops")[0],
                        table.with_range(table.spread(own, "cpu_ns_per_read")),
                        table.with_range(table.spread(shared, "cpu_ns_per_read")),
                        table.ratio_text(shared, own, "cpu_ns_per_read", ("**dearer**", "**cheaper**"))[0],
                    ]
                    + [
                        table.with_range(table.spread(_select(self.alone, contexts, counter), "cpu_ns_per_read"))
                        for counter in COUNTERS
                    ]
                    + [
                        f"{table.spread(runs, 'iops').median / first[counter].median:.2f}"
                        for runs, counter in ((own, "own"), (shared, "shared"))
                    ]
                )
            )
        return lines + [""]

    def _disk(self):
        lines = table.head(["contexts", "IOPS", "CPU, ns per read", "scaling"], 1)
        first = table.spread(_select(self.disk, self.counts[0]), "iops")
        for contexts in self.counts:
            runs = _select(self.disk, contexts)
            if runs:
                rate = table.spread(runs, "iops")
                lines.append(
                    table.row(
                        [
                            str(contexts),
                            table.with_range(rate),
                            table.with_range(table.spread(runs, "cpu_ns_per_read")),
                            f"{rate.median / first.median:.2f}",
                        ]
                    )
                )
        return lines + [""]


def _select(runs, contexts, counter=None):
    return [r for r in runs if r["contexts"] == contexts and r["counter"] == counter]
