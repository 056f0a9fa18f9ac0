#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes of every length at every offset succeed with direct I/O, also where the requests' memory is
# registered with io_uring, and read back right.
#
# Before Linux 6.18, the kernel refuses registered memory (EINVAL) if one of its pages is cut in the
# middle of a block. The middle of an unaligned write lies in the request's buffer like that.
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"

require python3
truncate -s 8M "$dir/disk.img"
start_nbdloopd --engine=io_uring --direct-io=on "$dir/disk.img"
quietly timeout 200 python3 "$own_python" "nbd+unix:///?socket=$sock"
stop_server
! grep -a 'error: ' "$log" || fail "the server's log has errors"
