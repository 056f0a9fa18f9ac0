#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In gdb, perf and a backtrace, a static function's name says where it is: no other file has it, and
# it is more than one word.
# static-names-are-unique.sh [TREE]
set -eu

cd "${1:-$top_srcdir}"
find . -type d \( -name '.?*' -o -name 'nbdloop-*' -o -path ./_build -o -path ./build -o -path ./tests \) -prune \
	-o -name '*.c' -print0 | xargs -0 awk '
# The type stands on a line of its own, and the name begins the next one.
/^[a-z_0-9]+\(/ {
	name = $0
	sub(/\(.*/, "", name)
	is_static = before ~ /(^|[ )])static / && before !~ /[;=]/
	if (is_static && name !~ /_/)
		complain(name "() is one word")
	if (name in file_of && file_of[name] != FILENAME && (is_static || name in statics))
		complain(name "() is in " file_of[name] ", too")
	file_of[name] = FILENAME
	if (is_static)
		statics[name] = 1
}

{ before = $0 }

function complain(text)
{
	if (!((FILENAME, text) in told))
		print FILENAME ": " text
	told[FILENAME, text] = failed = 1
}

END { exit failed }
' >&2
