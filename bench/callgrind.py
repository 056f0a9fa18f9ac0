# SPDX-License-Identifier: BSD-3-Clause
"""A file of callgrind's: how many instructions each function itself took."""

import collections
import os
import re

NAME = re.compile(r"(c?)(ob|fl|fi|fe|fn)=\((\d+)\)(?: (.*))?$")


class Profile:
    """`own[OBJECT, FUNCTION]`: instructions, without those of what it called. An object is a program's or library's
    name, without its directory."""

    def __init__(self, path: str) -> None:
        self.own: collections.Counter[tuple[str, str]] = collections.Counter()
        self.names: dict[tuple[str, str], str] = {}
        self.object = self.function = ""
        called = False
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in map(str.rstrip, f):
                if name := NAME.match(line):
                    self._take_name(*name.groups())
                elif line.startswith("calls="):
                    called = True   # the next line is the cost of the call
                elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
                    if not called:
                        self._take_cost(line)
                    called = False

    def _take_name(self, callee: str, kind: str, number: str, text: str | None) -> None:
        # A name stands with its number once, and from then on only the number.
        if text is not None:
            self.names[kind, number] = text
        if callee or kind not in ("ob", "fn"):
            return
        if kind == "ob":
            self.object = os.path.basename(self.names[kind, number])
        else:
            self.function = self.names[kind, number]

    def _take_cost(self, line: str) -> None:
        words = line.split()
        if len(words) > 1:
            self.own[self.object, self.function] += int(words[1])

    def total(self, wanted: str | None = None) -> int:
        """The instructions of one object, or of all."""
        return sum(n for (name, _), n in self.own.items() if wanted in (None, name))
