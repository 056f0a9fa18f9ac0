# SPDX-License-Identifier: BSD-3-Clause
"""S3, the servers' part without a disk: requests answered from memory, over an increasing number of
connections.
"""

import os
import tempfile

import memory
import plot
import rounds as rounds_module
import server as server_module
import table

SERVERS = ("nbdloopd", "memory")
BASE = "memory"
COLUMNS = ("connections", "server", "mode", "run", "position", "rate", "server_us", "client_us", "switches")

TEXT = (
    "Reads of 512 bytes of an image in memory, 32 under way over each connection, by a client that costs a fraction "
    "of fio's engine (bench/load.c): what servers can answer at most, without a disk. `memory` is nbdkit's memory "
    "plugin. Server and client share the processors: with few of them, the rate cannot double."
)


class Answers:
    def __init__(self, bench, counts, seconds):
        self.bench = bench
        self.counts = counts
        self.seconds = seconds
        self.runs = []
        self.sheet = bench.report.sheet("answers.csv", COLUMNS)

    def run(self):
        try:
            with tempfile.TemporaryDirectory(prefix="bench-run-", dir=memory.DIRECTORY) as directory:
                self._run(directory, memory.MemoryImage(directory))
        except OSError as e:
            self._failed("all", str(e))

    def _failed(self, label, reason):
        self.bench.report.failures.append(rounds_module.Failure("S3, without a disk", label, reason))

    def _run(self, directory, image):
        servers = [one for one in memory.servers_make(SERVERS, self.bench.programs) if self._is_there(one)]
        count = self.bench.settings.runs
        for connections in self.counts:
            for round_ in range(1, count + 1):
                rounds_module.progress(f"S3 without a disk, {connections} connections, run {round_}/{count}")
                for position, one in enumerate(rounds_module.turns(servers, round_), 1):
                    try:
                        run = memory.run_one(
                            self.bench.load,
                            one,
                            image,
                            directory,
                            mode="batched",
                            connections=connections,
                            depth=32,
                            length=512,
                            seconds=self.seconds,
                        )
                    except server_module.ServerError as e:
                        self._failed(one.label, str(e))
                        servers.remove(one)
                        continue
                    run |= {"run": round_, "position": position}
                    self.sheet.add(run)
                    self.runs.append(run)

    def _is_there(self, one):
        reason = one.unavailable()
        if reason is not None:
            self._failed(one.label, reason)
        return reason is None

    def report(self):
        report = self.bench.report
        report.add("## S3: connections without a disk", "", TEXT, "")
        if not self.runs:
            report.add("Nothing could be measured; the reasons are at the end.", "")
            return
        report.add(
            f"{self.bench.settings.runs} runs of each, of {self.seconds:g} s, on "
            f"{len(os.sched_getaffinity(0))} processors.",
            "",
        )
        lines = table.head(
            [
                "connections",
                "server",
                "requests/s",
                f"to {BASE}",
                "server CPU, us per request",
                "client CPU, us per request",
                "switches per request",
            ],
            2,
        )
        words = []
        for connections in self.counts:
            base = self._select(connections, BASE)
            for server in SERVERS:
                own = self._select(connections, server)
                if not own:
                    lines.append(table.row([str(connections), server, table.NOT_MEASURED] + ["–"] * 4))
                    continue
                text, word = table.ratio_text(own, base, "rate")
                if server != BASE and word:
                    words.append(word)
                lines.append(
                    table.row(
                        [
                            str(connections),
                            server,
                            table.with_range(table.spread(own, "rate")),
                            text if server != BASE else "1",
                        ]
                        + [table.plain(table.spread(own, column)) for column in ("server_us", "client_us", "switches")]
                    )
                )
        report.add(*lines, "")
        ratios = [table.ratio(self._select(n, SERVERS[0]), self._select(n, BASE), "rate") for n in self.counts]
        report.tally("S3, no disk", SERVERS[0], BASE, words, [r for r in ratios if r is not None])
        series = {
            server: {n: table.spread(self._select(n, server), "rate") for n in self.counts if self._select(n, server)}
            for server in SERVERS
        }
        report.plot(
            plot.lines_draw,
            "s3-answers",
            "S3: requests answered from memory over connections",
            "connections",
            "requests/s",
            {label: points for label, points in series.items() if points},
        )

    def _select(self, connections, server):
        return [r for r in self.runs if r["connections"] == connections and r["server"] == server]
