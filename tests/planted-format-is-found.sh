#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# formatted.sh fails and names the file when a line of C is formatted differently; lines-fit.sh does
# so when a line of prose is too long, names-are-there.sh when a comment names something that does
# not exist, static-names-are-unique.sh when a static function's name is one word, and
# pipes-are-read-to-their-end.sh when a script has `| grep -q'.
set -eu

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
long=$(printf 'word %.0s' {1..20})end

# try TEST FILE LINE: the test passes for a copy of FILE; with LINE added, it fails and names FILE
try()
{
	local status=0
	rm -rf "$tree/copy"
	mkdir -p "$tree/copy/${2%/*}"
	cp "$top_srcdir/.clang-format" "$tree/copy"
	cp "$top_srcdir/$2" "$tree/copy/$2"
	chmod -R u+w "$tree/copy"
	"$top_srcdir/tests/$1" "$tree/copy" >"$tree/said" 2>&1 || status=$?
	if [ "$status" = 77 ]; then
		sed 's/^formatted/planted-format-is-found/' "$tree/said" >&2
		exit 77
	fi
	test "$status" = 0 || { echo "$1 fails for $2 as it is" >&2 && cat "$tree/said" >&2; exit 1; }
	echo "$3" >>"$tree/copy/$2"
	if "$top_srcdir/tests/$1" "$tree/copy" >"$tree/said" 2>&1; then
		echo "$1 does not find in $2: $3" >&2
		exit 1
	fi
	grep -qF "$2:" "$tree/said" || { echo "$1 does not name $2:" >&2 && cat "$tree/said" >&2; exit 1; }
}

try lines-fit.sh tests/arrows.sh "# $long"
try lines-fit.sh tests/lib/control.py "    # $long"
try lines-fit.sh tests/Makefile.am "# $long"
try lines-fit.sh bench/README.md "$long"
try lines-fit.sh man/nbdloop.pod "$long"
pipe='|'
try static-names-are-unique.sh common/unit.c $'static int\nplanted(void)'
try pipes-are-read-to-their-end.sh tests/arrows.sh "yes $pipe grep -q y"
for wrong in 'common/gone.h' 'gone.c' 'gone_away()' 'engine/gone/'; do
	printf '/* See %s. */\n' "$wrong" >"$tree/planted.c"
	if "$top_srcdir/tests/names-are-there.sh" "$tree/planted.c" 2>"$tree/said" ||
		! grep -qF "planted.c:1: there is no ${wrong%/}" "$tree/said"; then
		echo "names-are-there.sh does not find $wrong" >&2
		exit 1
	fi
done
try formatted.sh common/unit.c 'static int planted ;'
try formatted.sh common/unit.h 'int planted(void);'
try lines-fit.sh nbd/reply.c "/* $long */"
