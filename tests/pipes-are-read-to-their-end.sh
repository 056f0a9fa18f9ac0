#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No script has `| grep -q': grep -q ends at its first match, and the command before it may then die
# of SIGPIPE.  With pipefail, the match counts as a failure, now and then.  `grep >/dev/null' reads
# all.
# pipes-are-read-to-their-end.sh [TREE]
set -eu
export LC_ALL=C

cd "${1:-$top_srcdir}"
find . -type d \( -name '.?*' -not -name .ci -o -name __pycache__ -o -name 'nbdloop-*' \
	-o -path ./_build -o -path ./build -o -path ./build-aux -o -path ./bench/results \) -prune \
	-o -type f \( -name '*.sh' -o -path ./check -o -path ./quickstart -o -path './tests/*/run' \
	-o -path ./tests/vm/guest -o -regex './bench/[a-z]+' \) -print0 |
	xargs -0 awk '
/\|[ \t]*grep -[a-zA-Z]*q/ && !/^[ \t]*#/ {
	print FILENAME ":" FNR ": a pipe into grep -q; write grep ... >/dev/null"
	failed = 1
}

END { exit failed }
' >&2
