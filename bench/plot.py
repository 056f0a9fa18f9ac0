# SPDX-License-Identifier: BSD-3-Clause
"""Plots of a report, drawn by gnuplot: each as SVG and as PNG, with its script.

A value is a table.Spread: the plot shows the median, with a bar from the lowest to the highest run.
"""

import os
import subprocess

WIDTH, HEIGHT = 960, 520
TERMINALS = (
    ("svg", f"svg size {WIDTH},{HEIGHT} dynamic background rgb 'white' font 'sans,12'"),
    ("png", f"pngcairo size {WIDTH},{HEIGHT} background rgb 'white' font 'sans,10'"),
)


# Server: its colour in each plot, so that a reader learns it once. Others get gnuplot's colours.
COLOURS = {
    "nbdloopd": "#1f77b4",
    "nbdloopd:direct-io=off": "#aec7e8",
    "nbdloopd:direct-io=off:page-cache=keep": "#9edae5",
    "nbdloopd:direct-io=off:page-cache=drop": "#17becf",
    "nbdloopd-unmerged": "#393b79",
    "loop": "#2ca02c",
    "loop:threads=64": "#2ca02c",
    "loop:direct-io=off": "#98df8a",
    "file": "#d62728",
    "file:threads=64": "#d62728",
    "file:threads=1": "#ff9896",
    "file-none": "#e377c2",
    "memory": "#bcbd22",
    "qemu-nbd": "#9467bd",
    "qemu-nbd-native": "#c5b0d5",
    "qemu-storage-daemon": "#6b6ecf",
    "nbd-server": "#8c564b",
    "loop-device": "#ff7f0e",
    "loop-device:direct-io=off": "#ffbb78",
    "raw": "#7f7f7f",
}
# Devices (bench/devices.py) have the colours of their servers.
COLOURS |= {
    "nbdloop": COLOURS["nbdloopd"],
    "nbdkit": COLOURS["file-none"],
    "nbdkit-cached": COLOURS["file"],
    "loop-direct": COLOURS["loop-device"],
    "loop-buffered": COLOURS["loop-device:direct-io=off"],
}

# Server: its name in a legend. Its settings follow.
NAMES = {
    "nbdloopd-unmerged": "nbdloopd, nothing merged",
    "loop": "the plugin in nbdkit",
    "file": "nbdkit file",
    "file-none": "nbdkit file, cache=none",
    "memory": "nbdkit memory",
    "qemu-nbd-native": "qemu-nbd, native AIO",
    "loop-device": "the loop device",
    "raw": "no server",
    "nbdloop": "nbdloop attach",
    "nbdkit": "nbd-client, nbdkit file, cache=none",
    "nbdkit-cached": "nbd-client, nbdkit file",
    "loop-direct": "the loop device, direct I/O",
    "loop-buffered": "the loop device, buffered",
}


class PlotError(Exception):
    pass


def quoted(text):
    """Quotes text for gnuplot; '_' and '^' are no markup (noenhanced)."""
    return "'" + text.replace("'", "''") + "'"


def legend(label):
    """The server's name and settings in words; what is no server keeps its label."""
    name, *settings = label.split(":")
    return ", ".join([NAMES.get(name, name)] + settings)


def colour(label):
    """gnuplot's words for a server's colour."""
    return f" linecolor rgb {quoted(COLOURS[label])}" if label in COLOURS else ""


def _draw(directory, name, head, data, plot):
    """Writes NAME.gnuplot and runs it; returns NAME."""
    script = [f"${block} << EOD\n" + "\n".join(lines) + "\nEOD" for block, lines in data.items()]
    script += head
    for suffix, terminal in TERMINALS:
        script += [f"set terminal {terminal} noenhanced", f"set output {quoted(f'{name}.{suffix}')}", plot]
    path = os.path.join(directory, f"{name}.gnuplot")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(script) + "\n")
    done = subprocess.run(
        ["gnuplot", f"{name}.gnuplot"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise PlotError(f"gnuplot {path}: {done.stderr.strip()}")
    return name


def lines_draw(directory, name, title, x_title, y_title, series, logarithmic=False):
    """Draws lines. `series`: {label: {x: Spread}}; the x axis has powers of 2."""
    blocks = {
        f"data{at}": [f"{x} {s.median} {s.low} {s.high}" for x, s in sorted(points.items())]
        for at, points in enumerate(series.values())
    }
    places = sorted({x for points in series.values() for x in points})
    ticks = ", ".join(str(x) for x in places)
    head = [
        f"set title {quoted(title)}",
        f"set xlabel {quoted(x_title)}",
        f"set ylabel {quoted(y_title)}",
        "set logscale x 2",
        f"set xtics ({ticks})",
        f"set xrange [{places[0] / 1.1}:{places[-1] * 1.1}]",
        "set key outside right",
        "set grid ytics",
        "set logscale y" if logarithmic else "set yrange [0:*]",
    ]
    plots = []
    for at, label in enumerate(series):
        plots.append(f"$data{at} using 1:2:3:4 with yerrorlines linewidth 1.5{colour(label)} title {quoted(legend(label))}")
    return _draw(directory, name, head, blocks, "plot " + ", \\\n     ".join(plots))


def bars_draw(directory, name, title, y_title, groups, series):
    """Draws bars. `groups`: labels along the x axis; `series`: {label: [Spread or None for each group]}."""
    lines = []
    for at, group in enumerate(groups):
        values = [values[at] for values in series.values()]
        lines.append(" ".join([f'"{group}"'] + [f"{s.median} {s.low} {s.high}" if s else "? ? ?" for s in values]))
    head = [
        f"set title {quoted(title)}",
        f"set ylabel {quoted(y_title)}",
        "set yrange [0:*]",
        "set grid ytics",
        "set style data histograms",
        "set style histogram errorbars gap 2 linewidth 1",
        "set style fill solid 0.8 border -1",
        "set boxwidth 0.9",
        "set key outside right",
        "set datafile missing '?'",
        "set xtics rotate by -20",
    ]
    plots = [
        f"$data using {3 * at + 2}:{3 * at + 3}:{3 * at + 4}"
        + (":xtic(1)" if at == 0 else "")
        + f"{colour(label)} title {quoted(legend(label))}"
        for at, label in enumerate(series)
    ]
    return _draw(directory, name, head, {"data": lines}, "plot " + ", \\\n     ".join(plots))
