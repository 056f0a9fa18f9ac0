#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No file of C, shell or Python has more than 500 lines.  A file owns one noun: a file that grows
# past the limit owns several, and is split between them.
# files-are-short.sh [TREE]
set -eu
export LC_ALL=C

cd "${1:-$top_srcdir}"
find . -type d \( -name '.?*' -not -name .ci -o -name __pycache__ -o -name 'nbdloop-*' \
	-o -path ./_build -o -path ./build -o -path ./build-aux -o -path ./bench/results \) -prune \
	-o -type f -not -path ./config.h \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' \
	-o -path ./check -o -path ./quickstart -o -path './tests/*/run' \
	-o -regex './bench/[a-z]+' \) -print0 |
	xargs -0 awk '
FNR == 501 {
	print FILENAME ": over 500 lines: give one of its nouns a file of its own"
	failed = 1
}

END { exit failed }
' >&2
