#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every fuzzer takes its seeds, and what it once choked on.
set -eu

for program in $PROGRAMS; do
	surface=${program#replay_}
	seeds=("$srcdir/seeds/$surface"/*)
	test -e "${seeds[0]}" || { echo "no seeds in $srcdir/seeds/$surface" >&2; exit 1; }
	./"$program" "${seeds[@]}"
done
