#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No line of prose is over 100 columns, neither in a comment of C, shell, Python or make, nor in a
# paragraph of a document. Tables, verbatim lines, addresses and a claim's requests for its machine
# ("# vm:") can't be broken; commands don't count either. formatted.sh checks the code of C.
set -eu
export LC_ALL=C

cd "${1:-$top_srcdir}"
find . -type d \( -name '.?*' -not -name .ci -o -name __pycache__ -o -name 'nbdloop-*' \
	-o -path ./_build -o -path ./build -o -path ./build-aux -o -path ./bench/results \) -prune \
	-o -type f -not -path ./config.h \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.am' -o -name '*.mk' -o -name '*.md' \
	-o -name '*.pod' -o -name README -o -name TODO -o -name NEWS -o -path ./check \
	-o -path ./quickstart -o -path ./.ci/may-skip -o -path './tests/*/run' \) -print0 |
	xargs -0 awk '
FNR == 1 {
	document = FILENAME ~ /[.]md$|[.]pod$|README$|TODO$|NEWS$/
	pod = FILENAME ~ /[.]pod$/
	in_c = FILENAME ~ /[.][ch]$/
	fence = 0
}

document && /^```/ { fence = !fence }

# The width of a line; a tab ends at every eighth column, and only the first byte of a UTF-8
# character has a column.
function width(line,    parts, count, i, columns)
{
	gsub(/[\200-\277]/, "", line)
	count = split(line, parts, "\t")
	columns = length(parts[1])
	for (i = 2; i <= count; i++)
		columns += 8 - columns % 8 + length(parts[i])
	return columns
}

function is_prose(line)
{
	if (in_c)
		return line ~ /^[ \t]*[*]([ \t\/]|$)|\/[*]|[*]\//
	if (!document)
		return line ~ /^[ \t]*# [^ ]/ && line !~ /^# vm: /
	if (pod)
		return line !~ /^[ \t=]/
	return !fence && line !~ /^[|\t]|^    /
}

length($0) > 50 && is_prose($0) && !/:\/\// && width($0) > 100 {
	print FILENAME ":" FNR ": " width($0) " columns"
	failed = 1
}

END { exit failed }
' >&2
