#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulation of nbdloopd finds no fault: neither in the seeds that once found one, nor in fresh
# ones, which follow from the commit. SIMULATION_SECONDS: how long fresh ones run; default: 10.
set -eu
run=$top_srcdir/tests/simulation/run
first=$(git -C "$top_srcdir" rev-parse --short=8 HEAD 2>/dev/null) || first=$(date +%s)

command -v gcc >/dev/null || { echo "no gcc here" && exit 77; }
"$run"
one=$("$run" --seed 1) two=$("$run" --seed 1)
[ "$one" = "$two" ] || { echo "seed 1 takes two ways: $one, $two" >&2 && exit 1; }
"$run" --first "$((16#$first))" --seconds "${SIMULATION_SECONDS:-10}"
