#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file and script names its licence in its first lines.
set -eu

cd "$top_srcdir"
start=
missing=$(
	find . -type d \( -name .git -o -name __pycache__ -o -name 'nbdloop-*' -o -path ./autom4te.cache \
		-o -path ./build-aux -o -path ./build -o -path ./_build -o -path ./_inst \) -prune -o -type f -print |
		while read -r file; do
			case $file in
			# Files that autotools or configure make.
			*/Makefile.in | ./aclocal.m4 | ./m4/l*.m4 | ./config* | ./run | ./wrapper/nbdkit)
				test "$file" = ./configure.ac || continue
				;;
			*.[ch] | *.sh | *.py | *.pod | *.am | *.mk | *.m4 | *.in) ;;
			*)
				IFS= read -rN 2 start <"$file" || true
				test "$start" = '#!' || continue
				;;
			esac
			mapfile -n 3 lines <"$file"
			case "${lines[*]}" in
			*'SPDX-License-Identifier: BSD-3-Clause'*) ;;
			*) echo "$file" ;;
			esac
		done
)
if [ -n "$missing" ]; then
	echo "without an SPDX line:" >&2
	echo "$missing" >&2
	exit 1
fi
