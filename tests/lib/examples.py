# SPDX-License-Identifier: BSD-3-Clause
"""Takes the commands out of a document, so that they can be run as a reader would paste them.

    examples.py FILE.pod DIRECTORY SECTION...    the indented blocks of those =head1 sections,
                                                 or =head2 sections
    examples.py README DIRECTORY                 the indented commands that begin with ./run

Writes one script per =head2 section (or per command of the README) into DIRECTORY: 01, 02, ...
A command that is continued on the next line is joined to one line.
"""
import os
import re
import sys


def pod_examples(text, sections):
    for section in re.split(r"^=head1 ", text, flags=re.M)[1:]:
        title, _, rest = section.partition("\n")
        for part in re.split(r"^=head2 ", rest, flags=re.M):
            if title not in sections and part.partition("\n")[0] not in sections:
                continue
            lines = [line[1:] for line in part.splitlines() if line.startswith(" ")]
            if lines:
                yield "\n".join(lines) + "\n"


def readme_examples(text):
    for line in text.splitlines():
        command = line.strip()
        if line.startswith("    ") and command.startswith("./run "):
            yield command + "\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        text = f.read()
    if sys.argv[1].endswith(".pod"):
        examples = list(pod_examples(text, sys.argv[3:]))
    else:
        examples = list(readme_examples(text))
    if not examples:
        sys.exit(f"no examples in {sys.argv[1]}")
    for number, example in enumerate(examples, 1):
        with open(os.path.join(sys.argv[2], f"{number:02}"), "w", encoding="utf-8") as f:
            f.write(re.sub(r"\\\n\s*", "", example))


main()
