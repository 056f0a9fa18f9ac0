#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways before an image in Ceph, started by the commands of nbdloop-cluster(7), each in a
# network of its own. The cable between the first one and the cluster is pulled out while it has
# writes; the second one fences it and writes. With the cable back, none of the late writes arrives.
. "$(dirname "$0")/../lib/functions.sh"
. "$lib/network.sh"

[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
[ -z "${NBDLOOP_VALGRIND:-}" ] || skip "valgrind would check Ceph's libraries"
require_python_nbd
connect_two_networks
ip -n "${server_prefix[3]}" link set lo up
mkdir "$dir/ceph" "$dir/manual"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-cluster.pod" "$dir/manual" "One gateway" "Two gateways"
status=0
timeout -k 10 $((100 * time_factor)) "${server_prefix[@]}" "$lib/ceph-cluster" "$dir/ceph" --address "$server_address" \
	"$python" "$own_python" "$dir" "${client[3]}" </dev/null >"$dir/out" 2>&1 || status=$?
[ $status -ne 77 ] || skip "$(tail -n 1 "$dir/out")"
if [ $status -ne 0 ]; then
	cat "$dir/out" >&2
	fail "status $status: $(tail -n 1 "$dir/out")"
fi
