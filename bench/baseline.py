# SPDX-License-Identifier: BSD-3-Clause
"""The figures that later ones are held against: a text file with a section for each kind of build.

    build: GNU C11 12.2.0 ...; x86_64; static probes
    libraries: glibc 2.36, ...
    nbdloopd/io_uring/read-batch 1500 1520

The last two are instructions per request: in the project's own code, and in the whole process. The first can only be
compared where the same compiler built it in the same way; the second needs the same libraries, too.
"""

import dataclasses
import os
import platform
import re

import machine

HEADS = ("build", "libraries")


class BaselineError(Exception):
    pass


class Unknown(Exception):
    """A program doesn't record how it was built."""


@dataclasses.dataclass(frozen=True)
class Figures:
    own: float
    whole: float


@dataclasses.dataclass
class Section:
    build: str
    libraries: str
    figures: dict[str, Figures]


class Baseline:
    """The file: comments at the top, then the sections."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.comments: list[str] = []
        self.sections: list[Section] = []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(map(str.rstrip, f), 1):
                try:
                    self._take(line)
                except (ValueError, IndexError):
                    raise BaselineError(f"{path}:{number}: neither 'build: ...' nor 'libraries: ...' nor a name with "
                                        f"two numbers: {line}") from None

    def _take(self, line: str) -> None:
        if line.startswith("#"):
            self.comments.append(line)
        elif line.startswith("build: "):
            self.sections.append(Section(line.removeprefix("build: "), "", {}))
        elif line.startswith("libraries: "):
            self.sections[-1].libraries = line.removeprefix("libraries: ")
        elif line:
            name, own, whole = line.split()
            self.sections[-1].figures[name] = Figures(float(own), float(whole))

    def find(self, build: str, libraries: str) -> Section | None:
        """The section of this build; if there are several, the one with these libraries, too."""
        known = [section for section in self.sections if section.build == build]
        return next((section for section in known if section.libraries == libraries), known[0] if known else None)

    def record(self, section: Section, keep: bool) -> None:
        """Replaces the section of the same build and libraries; with `keep`, keeps that section's
        other figures.
        """
        old = self.find(section.build, section.libraries)
        if old is None or old.libraries != section.libraries:
            self.sections.append(section)
        else:
            old.figures = {**(old.figures if keep else {}), **section.figures}
        with open(self.path, "w", encoding="utf-8") as f:
            f.write("\n".join(self.comments) + "\n")
            for one in self.sections:
                f.write(f"\nbuild: {one.build}\nlibraries: {one.libraries}\n")
                f.writelines(f"{name} {figures.own:.0f} {figures.whole:.0f}\n" for name, figures in one.figures.items())


def producers(program: str) -> set[str]:
    """The name, version and flags that the compilers wrote into a program's debug information."""
    text = machine.output(["readelf", "--debug-dump=info", "--dwarf-depth=1", program]) or ""
    found = re.findall(r"DW_AT_producer\s*:\s*(?:\(.*?\): )?(.*)", text)
    return {line.strip() for line in found if not line.startswith("GNU AS")}


def build_describe(program: str) -> str:
    """How the program was compiled, as one line. -fPIC depends on the file, not on the build."""
    lines = {line.replace(" -fPIC", "") for line in producers(program)}
    if len(lines) != 1 or " -" not in "".join(lines):
        raise Unknown(f"{program} does not say how it was compiled: its debug information has "
                      f"{' and '.join(sorted(lines)) or 'no compiler'} (gcc says it with -g, clang with -g "
                      f"-grecord-command-line)")
    notes = machine.output(["readelf", "-SW", program]) or ""
    return "; ".join([*lines, platform.machine(), "static probes" if ".note.stapsdt" in notes else "no static probes"])


def libraries_describe() -> str:
    """The libraries whose instructions are part of a whole process; with AVX2, the C library uses
    another memcpy().
    """
    nbdkit = (machine.output(["nbdkit", "--version"]) or "nbdkit unknown").split("\n", maxsplit=1)[0]
    liburing = machine.output(["pkg-config", "--modversion", "liburing"])
    avx2 = re.search(r"^flags\s*:.*\bavx2\b", machine.read("/proc/cpuinfo") or "", re.M)
    return f"{' '.join(platform.libc_ver())}, liburing {liburing}, {nbdkit}, {'AVX2' if avx2 else 'no AVX2'}"


def baseline_path() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.txt")
