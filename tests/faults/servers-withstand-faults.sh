#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Both servers under load, with transfers, allocations and sockets that fail, rings of older
# kernels, event loops that stand still, clients that vanish or keep others waiting, file systems
# that take their time and changes at run time: no acknowledged write is lost or replaced by an
# older one, nothing crashes or hangs.  Half a minute of what tests/faults/run does, for both
# servers at once; FAULTS_SECONDS for longer, LOOP_SEED for other faults, an empty FAULTS_KINDS for
# all kinds.
. "$(dirname "$0")/../lib/functions.sh"

export TMPDIR=$dir
kinds=${FAULTS_KINDS-rewrite,alloc,kernels,control,vanish,lost,busy,events,accept,slow,long,memory,trickle}
for server in nbdloopd nbdkit; do
	"$python" "$(dirname "$0")/run" --servers "$server" --seconds "${FAULTS_SECONDS:-30}" --seed "${LOOP_SEED:-1}" \
		${kinds:+--kinds "$kinds"} --engines "${engines// /,}" >"$dir/faults-$server.log" 2>&1 &
	runs+=($!)
done
failed=
wait "${runs[0]}" || failed="nbdloopd: $(tail -n 20 "$dir/faults-nbdloopd.log")"
wait "${runs[1]}" || failed="${failed:+$failed
}nbdkit: $(tail -n 20 "$dir/faults-nbdkit.log")"
[ -z "${FAULTS_SECONDS-}" ] || cat "$dir"/faults-*.log
[ -z "$failed" ] || fail "$failed"
