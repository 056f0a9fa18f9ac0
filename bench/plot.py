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


class PlotError(Exception):
    pass


def quoted(text):
    """Quotes text for gnuplot; '_' and '^' are no markup (noenhanced)."""
    return "'" + text.replace("'", "''") + "'"


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
        plots.append(f"$data{at} using 1:2:3:4 with yerrorlines linewidth 1.5 title {quoted(label)}")
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
    ]
    plots = [
        f"$data using {3 * at + 2}:{3 * at + 3}:{3 * at + 4}"
        + (":xtic(1)" if at == 0 else "")
        + f" title {quoted(label)}"
        for at, label in enumerate(series)
    ]
    return _draw(directory, name, head, {"data": lines}, "plot " + ", \\\n     ".join(plots))
