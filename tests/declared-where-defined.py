# SPDX-License-Identifier: BSD-3-Clause
"""Finds functions that are declared in X.h and defined elsewhere than in X.c, and circles of calls.

declared-where-defined.py SOURCES OBJECTS <LIST
The object files under OBJECTS tell which functions a file defines and uses. A file and its header
are one module, without ".c" and ".h"; a use of a function is an arrow from one module to another
one, and no arrows may lead back to where they began, within a component (a folder at the top).

LIST are the violations that are known: "HEADER.h: FUNCTION", or "MODULE -> OTHER" for a part of a
circle. One that is no longer there must leave it."""
import os
import re
import subprocess
import sys

COMPONENTS = "common control engine nbd plugins server tool".split()
DECLARED = re.compile(r"^(?:extern\s+)?(?:\w[\w\s*]*[\s*])?([a-z]\w*)\(", re.M)


def files(top, end):
    for component in COMPONENTS:
        for folder, folders, names in os.walk(os.path.join(top, component)):
            folders.sort()
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(end))


def symbols(sources, objects):
    """Which module defines each function, and which functions each module uses."""
    defined, used = {}, {}
    paths = list(files(objects, ".o"))
    if not paths:
        print("skipped: nothing is built under " + objects)
        sys.exit(77)
    # Objects that are compiled with flags of their target's own have its name in front.
    said = subprocess.run(["nm", "--print-file-name", "--format=posix", *paths],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in said.splitlines():
        path, name, kind = line.split(": ", 1)[0], *line.split(": ", 1)[1].split()[:2]
        module = os.path.relpath(path, objects)[:-2]
        module = re.sub(r"[^/]*-(?=[^/]*$)", "", module)
        if not os.path.exists(os.path.join(sources, module + ".c")):
            continue
        used.setdefault(module, set())
        if kind in "TW":
            defined.setdefault((module.split("/")[0], name), set()).add(module)
        elif kind == "U":
            used[module].add(name)
    # Two programs of a component may each have a function of that name: it makes no arrow.
    return {key: modules.pop() for key, modules in defined.items() if len(modules) == 1}, used


def declared_elsewhere(sources, defined):
    for path in files(sources, ".h"):
        header = os.path.relpath(path, sources)
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for name in DECLARED.findall(text):
            home = defined.get((header.split("/")[0], name), header[:-2])
            if home != header[:-2]:
                yield f"{header}: {name}", home


def reach(arrows, start):
    found, left = set(), [start]
    while left:
        for other in arrows.get(left.pop(), ()):
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def main():
    sources, objects = sys.argv[1:]
    known = {line.strip() for line in sys.stdin if line.strip() and line[0] != "#"}
    defined, used = symbols(sources, objects)
    failed = False

    elsewhere = dict(declared_elsewhere(sources, defined))
    for text in sorted(elsewhere.keys() - known):
        print(f"{text} is defined in {elsewhere[text]}.c")
        failed = True

    arrows = {module: {} for module in used}
    for module, names in used.items():
        for name in sorted(names):
            other = defined.get((module.split("/")[0], name), module)
            if other != module:
                arrows[module].setdefault(other, []).append(name)
    rest = {module: [other for other in others if f"{module} -> {other}" not in known]
            for module, others in arrows.items()}
    for module in sorted(rest):
        for other in sorted(rest[module]):
            if module in reach(rest, other):
                print(f"{module} -> {other}: part of a circle, by {' '.join(arrows[module][other])}")
                failed = True

    for text in sorted(known):
        module, arrow, other = text.partition(" -> ")
        if arrow:
            # Of what is not built, nothing is known.
            there = module not in used or other not in used or (
                other in arrows[module] and module in reach(arrows, other))
        else:
            there = text in elsewhere
        if not there:
            print("this is no longer there and must leave the list: " + text)
            failed = True
    sys.exit(failed)


main()
