#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop check --timeout 4295, and longer, is that many seconds: in microseconds they don't fit 32
# bits, and the read had only what was left over, which is 33 milliseconds.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdkit
sock=$dir/slow.sock
spawn slow nbdkit -f -U "$sock" --filter=delay memory 1M rdelay=300ms
wait_until "nbdkit listens" listens "$sock"
quietly nbdloop check --timeout 4295 "nbd+unix:///?socket=$sock"
end_process slow TERM
