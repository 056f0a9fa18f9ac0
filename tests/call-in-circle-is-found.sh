#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# declared-where-defined.py finds a function that another file defines, a circle of calls, and an
# entry of its list that is no longer needed.
set -eu

command -v python3 >/dev/null || { echo "call-in-circle-is-found.sh: skipped: python3 is not installed" >&2; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree/nbd" "$tree/engine"
echo 'int low(void);' >"$tree/nbd/low.h"
printf '/* int middle(void); */\nint\nmiddle(void);\n' >"$tree/nbd/middle.h"
echo 'int high(void);' >"$tree/nbd/high.h"
echo 'int low(void); int low(void) { return 1; }' >"$tree/nbd/low.c"
echo 'int low(void); int middle(void); int middle(void) { return low(); }' >"$tree/nbd/middle.c"
echo 'int middle(void); int high(void); int high(void) { return middle(); }' >"$tree/nbd/high.c"
# Another component may have functions of those names.
echo 'int high(void); int low(void); int low(void) { return high(); }' >"$tree/engine/other.c"

# The second has the name of an object of a library with flags of its own.
build()
{
	$CC -c -o "$tree/nbd/low.o" "$tree/nbd/low.c"
	$CC -c -o "$tree/nbd/libnbd_a-middle.o" "$tree/nbd/middle.c"
	$CC -c -o "$tree/nbd/high.o" "$tree/nbd/high.c"
	$CC -c -o "$tree/engine/other.o" "$tree/engine/other.c"
}

# try LIST WANTED: with this list, it fails and says WANTED and nothing else (empty: it passes)
try()
{
	local result=0
	build
	python3 "$top_srcdir/tests/declared-where-defined.py" "$tree" "$tree" >"$tree/said" <<<"$1" || result=$?
	if [ "$(cat "$tree/said")" != "$2" ] || [ "$result" -gt 1 ] || [ -n "$2" -a "$result" = 0 ]; then
		echo "result $result, wanted: $2" >&2
		cat "$tree/said" >&2
		exit 1
	fi
}

try '' ''
try 'nbd/low -> nbd/high' 'this is no longer there and must leave the list: nbd/low -> nbd/high'
try 'nbd/low.h: low' 'this is no longer there and must leave the list: nbd/low.h: low'

printf 'int middle(void);\n' >>"$tree/nbd/low.h"
try '' 'nbd/low.h: middle is defined in nbd/middle.c'
try 'nbd/low.h: middle' ''
sed -i '$d' "$tree/nbd/low.h"

echo 'int high(void); int low(void); int low(void) { return high(); }' >"$tree/nbd/low.c"
try '' "nbd/high -> nbd/middle: part of a circle, by middle
nbd/low -> nbd/high: part of a circle, by high
nbd/middle -> nbd/low: part of a circle, by low"
try 'nbd/low -> nbd/high' ''
