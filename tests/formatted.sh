#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All C files agree with .clang-format as Debian 12's clang-format applies it; other versions format
# differently.
set -eu

skip()
{
	echo "formatted.sh: skipped: $*" >&2
	exit 77
}

formatter=$(command -v clang-format-14 || command -v clang-format) || skip "clang-format is not installed"
version=$("$formatter" --version)
case $version in
*" version 14."*) ;;
*) skip "clang-format is of another version than 14: ${version##* version }" ;;
esac

cd "${1:-$top_srcdir}"
find . -type d \( -name '.*' -not -name . -o -name 'nbdloop-*' -o -path ./_build -o -path ./build \) -prune \
	-o -name '*.[ch]' -not -path ./config.h -print0 | # config.h at the top is made by configure
	xargs -0 "$formatter" --style=file --dry-run -Werror
