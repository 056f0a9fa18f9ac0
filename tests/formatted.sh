#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All C files agree with .clang-format as clang-format 14 applies it.
set -eu

formatter=$("$top_srcdir/setup/clang-format") || {
	echo "formatted.sh: skipped: there is no clang-format 14 (setup/clang-format --get gets it from PyPI)" >&2
	exit 77
}

cd "${1:-$top_srcdir}"
find . -type d \( -name '.*' -not -name . -o -name 'nbdloop-*' -o -path ./_build -o -path ./build \) -prune \
	-o -name '*.[ch]' -not -path ./config.h -print0 | # config.h at the top is made by configure
	xargs -0 "$formatter" --style=file --dry-run -Werror
