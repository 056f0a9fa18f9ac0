#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The suites whose tests are not about files pass with images in Ceph, too: both servers serve a
# copy of each test's image from a cluster that this script starts.
. "$(dirname "$0")/../lib/functions.sh"

[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
[ -z "${NBDLOOP_VALGRIND:-}" ] || skip "valgrind would check Ceph's libraries"

mkdir "$dir/ceph"
cat >"$dir/suites" <<'END'
cd "$1/tests/nbd"
for suite in model neighbours zero replies window connections; do
	LOOP_CEPH=4M LOOP_PART=8 ./check_$suite || exit 1
done
LOOP_CEPH=32K ./check_extents
END
status=0
CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=$time_factor \
	"$lib/ceph-cluster" "$dir/ceph" bash "$dir/suites" "$top_builddir" >"$dir/out" 2>&1 </dev/null || status=$?
if [ $status -eq 77 ]; then
	skip "$(tail -n 1 "$dir/out")"
elif [ $status -ne 0 ]; then
	grep -v ': Passed$' "$dir/out" >&2 || true
	exit 1
fi
