#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# swap=on either does all that it promises or fails: a user who lacks the capability is refused, and
# the message names that capability. (tests/vm/swap-on-keeps-server-ready.sh tests swap=on with the
# capability.)
. "$(dirname "$0")/../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"
if [ "$(id -u)" = 0 ]; then
	server_prefix=(setpriv --bounding-set -sys_resource --inh-caps -sys_resource)
fi
refuse_start -- "$image" swap=on
expect_log "swap=on: PR_SET_IO_FLUSHER: .*CAP_SYS_RESOURCE"
refuse_start -- "$image" swap=maybe
expect_log "swap=maybe: must be one of off, on"
start_server -- "$image" swap=off
connect_once
reject_log "swap"
stop_server
