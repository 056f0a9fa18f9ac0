#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Both servers run under load, with failing transfers, allocations and sockets, rings of older
# kernels, event loops that stand still, clients that vanish or make others wait, slow file systems,
# and changes at run time: no acknowledged write is lost or replaced by an older one, and nothing
# crashes or hangs. This is half a minute of tests/faults/run, for both servers at once.
# FAULTS_SECONDS makes it longer, LOOP_SEED chooses other faults, and an empty FAULTS_KINDS means
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
