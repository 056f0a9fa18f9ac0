# SPDX-License-Identifier: BSD-3-Clause
"""The directory that bench/run writes: report.md, its plots, and CSV files with every single run."""

import csv
import os
import re
import statistics

import machine
import plot
import table
from settings import UsageError

TITLE = "# nbdloop, measured beside its peers"
NAME = "report.md"

# Files of an earlier report, which are replaced; no other file is.
OWN = re.compile(r"report\.md|(s\d|peers|runs|engine|answers|many)[a-z0-9-]*\.(svg|png|gnuplot|csv)")

WINS = (
    "A word stands beside a ratio only when all rounds agree, and there are at least "
    f'{table.VERDICT_RUNS}: **faster**, **slower**; **cheaper**, **dearer**; else it is "even": this bench saw no '
    "difference that it trusts. Medians have the lowest and the highest run in parentheses; a ratio is that of the "
    "medians, and in its parentheses are the lowest and the highest ratio of two runs of one round."
)


class Sheet:
    """A CSV file that is written after each run, so that an interrupted bench keeps its runs."""

    def __init__(self, directory, name, columns):
        self.name = name
        self.file = table.Csv(os.path.join(directory, name), columns)

    def add(self, run):
        self.file.add(run)

    def close(self):
        self.file.close()


def directory_prepare(directory):
    """Makes the directory, or removes an earlier report from it."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, NAME)
    names = os.listdir(directory)
    if names and not (machine.read(path) or "").startswith(TITLE):
        raise UsageError(f"--output: {directory} is not empty, and what is in there is no report")
    for name in names:
        if OWN.fullmatch(name):
            os.unlink(os.path.join(directory, name))
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{TITLE}\n\n**Not complete.**\n")


def _magnitudes(ratios):
    """How much faster: the median of the cells, with the lowest and the highest one."""
    if not ratios:
        return "–"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


class Report:
    def __init__(self, directory):
        self.directory = directory
        directory_prepare(directory)
        self.facts = []  # facts about the machine and the bench, one line each
        self.lines = []  # lines of the sections
        self.tallies = []  # (section, server, peer, {verdict: count}, magnitudes)
        self.failures = []  # rounds.Failure
        self.sheets = []

    def sheet(self, name, columns):
        self.sheets.append(Sheet(self.directory, name, columns))
        return self.sheets[-1]

    def add(self, *lines):
        self.lines += lines

    def plot(self, draw, *arguments, **options):
        """Draws a plot, and shows it at this place of the report."""
        try:
            name = draw(self.directory, *arguments, **options)
        except (plot.PlotError, OSError) as e:
            self.add(f"No plot: {e}", "")
            return
        self.add(f"![{arguments[1]}]({name}.svg)", "", f"([PNG]({name}.png))", "")

    def tally(self, section, ours, theirs, verdicts, ratios=()):
        """Counts the verdicts; `ratios`: those of the same cells, for the magnitudes."""
        counts = {word: verdicts.count(word) for word in dict.fromkeys(verdicts)}
        self.tallies.append((section, ours, theirs, counts, _magnitudes(ratios)))

    def write(self):
        for sheet in self.sheets:
            sheet.close()
        text = [TITLE, ""] + [f"* {fact}" for fact in self.facts]
        text += ["", WINS, ""] + self._summary() + self.lines + self._failed() + self._files()
        with open(os.path.join(self.directory, NAME), "w", encoding="utf-8") as f:
            f.write("\n".join(text).replace("\n\n\n", "\n\n"))

    def _summary(self):
        if not self.tallies:
            return []
        words = ("faster", "even", "slower", "too few runs")
        lines = ["## Won and lost", "", "Cells by IOPS, all of them: none is left out because it was lost.", ""]
        lines += table.head(["section", "server", "against"] + list(words) + ["ratio, median (lowest–highest)"], 3)
        for section, ours, theirs, counts, magnitudes in self.tallies:
            plain = {table.bare(word): count for word, count in counts.items()}
            lines.append(table.row([section, ours, theirs] + [str(plain.get(word, 0)) for word in words] + [magnitudes]))
        return lines + [""]

    def _failed(self):
        lines = ["## What could not be measured", ""]
        if not self.failures:
            return lines + ["Nothing: every server ran in every cell.", ""]
        lines += table.head(["server", "where", "why"], 3)
        for failure in self.failures:
            reason = " ".join(failure.reason.split()).replace("|", "\\|")
            lines.append(table.row([failure.label, failure.what, reason[:600]]))
        return lines + [""]

    def _files(self):
        lines = ["## Every single run", ""]
        for sheet in self.sheets:
            with open(os.path.join(self.directory, sheet.name), newline="", encoding="utf-8") as f:
                count = sum(1 for _ in csv.reader(f)) - 1
            lines.append(f"* [{sheet.name}]({sheet.name}): {count} runs")
        return lines


def versions(labels, programs):
    """The installed ones of the compared programs, with their versions; one line each."""
    lines = []
    for kind, command in (
        ("qemu-nbd", ["qemu-nbd", "--version"]),
        ("qemu-storage-daemon", ["qemu-storage-daemon", "--version"]),
        ("nbd-server", ["nbd-server", "-V"]),
        ("nbdloopd", [programs["nbdloopd"], "--version"]),
    ):
        if any(label.split(":")[0].startswith(kind) for label in labels):
            said = (machine.output(command) or "not there").splitlines()[0]
            lines.append(f"{kind}: {said}")
    return lines
