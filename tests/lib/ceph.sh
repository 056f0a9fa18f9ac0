# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For a script that needs a Ceph cluster; sourced after functions.sh.

# Starts the script again beside a cluster (tests/lib/ceph-cluster), and ends with it. In the second
# run, it returns. The cluster and what runs in it may take so many seconds.
in_cluster() # SECONDS [OPTION-OF-CEPH-CLUSTER...]
{
	local limit=$(($1 * time_factor)) status=0
	shift
	[ -z "${NBDLOOP_IN_CLUSTER-}" ] || return 0
	[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
	[ -z "${NBDLOOP_VALGRIND-}" ] || skip "valgrind would check Ceph's libraries"
	mkdir "$dir/ceph"
	# In the background, so that a signal ends the cluster at once.
	NBDLOOP_IN_CLUSTER=yes timeout -k 10 "$limit" "$lib/ceph-cluster" "$dir/ceph" "$@" "$BASH" "$(realpath "$0")" "${script_arguments[@]}" \
		</dev/null >"$dir/out" 2>&1 &
	process_pids[cluster]=$!
	wait $! || status=$?
	unset "process_pids[cluster]"
	[ $status -ne 77 ] || skip "$(tail -n 1 "$dir/out")"
	if [ $status -ne 0 ]; then
		cat "$dir/out" >&2
		fail "status $status: $(tail -n 1 "$dir/out")"
	fi
	exit 0
}

# The arguments of the script's second run.
script_arguments=()

# A monitor that has just come back may refuse (EPERM) requests of Ceph's program.
ceph_patiently() # ARGUMENT...
{
	wait_until "ceph $* succeeds" ceph --connect-timeout 5 "$@"
}

osds_are_up() # COUNT
{
	[ "$(ceph --connect-timeout 5 osd stat -f json 2>/dev/null | jq .num_up_osds)" = "$1" ]
}
