#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that takes the place of another one (ceph-fence) has the lock of an image in Ceph at its
# start, without waiting for the cluster to notice that the other one is dead, and no write of that
# one arrives any more. It doesn't start if a third client has had the image meanwhile, or has it.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/ceph.sh"

in_cluster 150
"$python" "$own_python" "$dir"
