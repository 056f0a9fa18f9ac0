#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every header compiles when it is the only include of a file, and when it is included twice.
set -eu

cd "$top_srcdir"
headers=$(find common control engine fuzz nbd plugins server tests tool -name '*.h' 2>/dev/null | sort)
test -n "$headers" || { echo "no headers in $PWD" >&2; exit 1; }
tree=(-I"$top_srcdir" -I"$top_builddir" -include "$top_builddir/config.h")
failed=0
for header in $headers; do
	case $header in
	plugins/* | tests/nbd/*) test "$ENABLE_PLUGIN" = yes || continue ;;
	server/http/http_library.h) test "$ENABLE_HTTP" = yes || continue ;;
	engine/backing/ceph/module/*) test "$ENABLE_RBD" = yes || continue ;;
	tool/*) test "$ENABLE_TOOL" = yes || continue ;;
	esac
	# shellcheck disable=SC2086 # several flags
	printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
		$CC "${tree[@]}" $HEADER_FLAGS -Werror -fsyntax-only -x c - || {
		echo "$header does not compile alone" >&2
		failed=1
	}
done
exit $failed
