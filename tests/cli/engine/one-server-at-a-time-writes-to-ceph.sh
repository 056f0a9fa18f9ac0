#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Of two servers of an image in Ceph, only one writes. The other fences it with force=on, even if it
# stands still at that moment: when it goes on, none of its writes arrives any more, it ends its
# clients' connections, and lets no new client in. After a reload, it opens the image again. The
# same holds when another client takes the lock away from all, by disabling the feature.
. "$(dirname "$0")/../../lib/functions.sh"

[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
[ -z "${NBDLOOP_VALGRIND:-}" ] || skip "valgrind would check Ceph's libraries"
status=0
mkdir "$dir/ceph"
timeout -k 10 $((150 * time_factor)) "$lib/ceph-cluster" "$dir/ceph" "$python" "$own_python" "$dir" </dev/null >"$dir/out" 2>&1 || status=$?
[ $status -ne 77 ] || skip "$(tail -n 1 "$dir/out")"
if [ $status -ne 0 ]; then
	cat "$dir/out" >&2
	fail "status $status: $(tail -n 1 "$dir/out")"
fi
