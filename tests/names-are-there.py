# SPDX-License-Identifier: BSD-3-Clause
"""Finds names in comments and documents that nothing in the tree has.

Names are paths, files of C, functions with "()", structures between backquotes, and the folders and
files in HACKING.md's map. The working directory is the tree."""
import os
import re
import sys

PRUNED = "build _build build-aux bench/results fuzz/seeds fuzz/corpus man/html".split()
TOP = "bench|common|control|debian|engine|examples|fuzz|man|nbd|plugins|server|setup|tests|tool|wrapper"
PATH = re.compile(rf"(?<![\w./$}}>-])(?:{TOP})/(?:[a-z0-9_.@-]+/)*[a-z0-9_.@-]*[a-z0-9_](?![\w<{{*])")
FILE = re.compile(r"(?<![\w./<>*-])[a-z0-9_]+\.[ch](?!\w|[./(]\w)")
CALL = re.compile(r"(?<![\w./>-])([a-z][a-z0-9_]*)\(\)")
STRUCT = re.compile(r"`struct ([a-z_]+)`")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)

# Functions of the kernel or of libraries that nothing here calls, and a file that must not exist.
OTHERS = {"clone3", "dm_poll_bio", "exec", "io_uring_peek_cqe", "lo_can_use_dio", "newlocale", "pidfd_open", "utils.c"}
# Not in the tree, or not under that name: build products, a suite of another project.
MADE = re.compile(r"man/html$|\.log$|nbd/003$|tests/bindir\.at$")


def files():
    for folder, folders, names in os.walk("."):
        folder = folder[2:] + "/" if folder != "." else ""
        folders[:] = [name for name in folders if name[0] != "." and not name.startswith("nbdloop-")
                      and name not in ("__pycache__", "autom4te.cache") and folder + name not in PRUNED]
        yield from (folder + name for name in names)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def comments_of_c(text):
    """The comments, on their lines."""
    kept, last = [], 0
    for match in COMMENT_OR_TEXT.finditer(text):
        kept += ["\n" * text.count("\n", last, match.start()), match[0] if match[0][0] == "/" else ""]
        last = match.end()
    return "".join(kept)


def prose_of(path):
    """What a human reads in a file."""
    name = os.path.basename(path)
    if path.endswith((".c", ".h")):
        return comments_of_c(read(path))
    if path.endswith(".md") or name in ("README", "TODO"):
        return read(path)
    if path.endswith((".sh", ".py", ".am", ".mk")) or ("." not in name and not name.startswith("configure") and read(path).startswith("#!")):
        return "".join(line if line.lstrip().startswith("#") else "\n" for line in read(path).splitlines(True))
    return ""


def path_exists(path):
    top = path.split("/")[0]
    places = [path, path + ".in", path + ".pod"]
    for tests in ("tests/cli/", "tests/unit/", "tests/vm/"): # as TESTS= and tests/vm/run have them
        places += [tests + path, tests + path + ".c", tests + path + ".sh"]
    places += [path + ".sh", os.path.splitext(path)[0] + ".pod"]
    return not os.path.isdir(top) or bool(MADE.search(path)) or any(map(os.path.exists, places))


def problems_of_prose(path, is_file, is_called, is_struct):
    for number, line in enumerate(prose_of(path).split("\n"), 1):
        wrong = [name for name in PATH.findall(line) if not path_exists(name.rstrip("."))]
        wrong += [name for name in FILE.findall(line) if not is_file(name)]
        if path.endswith((".c", ".h", ".md")):
            wrong += [name + "()" for name in CALL.findall(line) if not is_called(name)]
            wrong += ["struct " + name for name in STRUCT.findall(line) if not is_struct(name)]
        yield from (f"{path}:{number}: there is no {name}" for name in wrong)


def problems_of_map(folders):
    """The map is indented by two columns for each level; "-> a.h, then b.h" names files to read."""
    section = re.search(r"^## Map\n(.*?)^## ", read("HACKING.md"), re.M | re.S)
    if not section:
        yield "HACKING.md has no map"
        return
    parents, on_map = [], set()
    for line in section[1].split("\n"):
        entry = re.match(r"    ( *)([a-z/]+)/ ", line)
        if entry:
            parents = parents[:len(entry[1]) // 2] + [entry[2]]
            on_map.add("/".join(parents))
            if not os.path.isdir("/".join(parents)) and parents[0] != "debian":
                yield f"HACKING.md, map: there is no {'/'.join(parents)}"
        for arrow in re.findall(r"-> (.*)", line): # "-> NAME, then NAME"
            for name in re.findall(r"[a-z_-]+\.[a-z.]+", arrow):
                if not os.path.exists("/".join(parents + [name])):
                    yield f"HACKING.md, map: there is no {name} in {'/'.join(parents)}"
    yield from (f"HACKING.md, map: {folder} is missing" for folder in sorted(folders - on_map))


def main():
    there = sorted(files())
    sources = [path for path in there if path.endswith((".c", ".h"))]
    code = "".join(COMMENT_OR_TEXT.sub(lambda match: "" if match[0][0] == "/" else match[0], read(path)) for path in sources)
    named = {os.path.basename(path) for path in there} | OTHERS
    named |= {os.path.basename(name) for name in re.findall(r"#\s*include\s*<([^>]+)>", code)}
    called = set(re.findall(r"\b(?:SYS_|__NR_)?([a-z_]\w*)", code)) | OTHERS
    structs = set(re.findall(r"\bstruct ([a-z_]+)\s*\{", code))
    problems = [] if sys.argv[1:] else list(problems_of_map({os.path.dirname(path) for path in sources} - {"", "wrapper"}
                                             - {os.path.dirname(path) for path in sources if path.startswith("tests/")}))
    for path in sys.argv[1:] or there:
        problems += problems_of_prose(path, named.__contains__, called.__contains__, structs.__contains__)
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    sys.exit(bool(problems))


main()
