#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Both servers under load, with transfers, allocations and sockets that fail, rings of older kernels, event loops that stand still,
# clients that vanish and changes at run time: no acknowledged write is lost or replaced by an older one, nothing crashes or
# hangs.  Half a minute of what tests/faults/run does; FAULTS_SECONDS for longer, LOOP_SEED for other faults.
. "$(dirname "$0")/../lib/functions.sh"

export TMPDIR=$dir
"$python" "$(dirname "$0")/run" --seconds "${FAULTS_SECONDS:-30}" --seed "${LOOP_SEED:-1}" \
	--kinds "${FAULTS_KINDS:-rewrite,alloc,kernels,control,vanish}" --engines "${engines// /,}" >"$dir/faults.log" 2>&1 ||
	fail "$(tail -n 20 "$dir/faults.log")"
[ -z "${FAULTS_SECONDS-}" ] || cat "$dir/faults.log"
