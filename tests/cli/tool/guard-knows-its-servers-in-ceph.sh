#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A guard knows by the events of its servers which client of Ceph each of them was, whether it has
# released the image's lock, and whether another client has fenced it: then no server follows.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/ceph.sh"

require_nbdloop
in_cluster 150
rbd create --size 64M rbd/disk
servers=(nbdloopd)
! command -v nbdkit >/dev/null || servers+=(nbdkit)
for server in "${servers[@]}"; do
	"$top_builddir/tests/cli/ceph_source" "$server" "$dir" >"$dir/said" || fail "$server: the source knows something else"
	grep -q 'another client of Ceph has taken rbd:rbd/disk' "$dir/said" || fail "$server: $(cat "$dir/said")"
	ceph osd blocklist clear
done
