#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that answers a read with success, and with less data than was asked for, gives an error:
# what is missing is no zeroes.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require python3
spawn liar python3 "$own_python" "$dir/liar.sock"
wait_until "the server listens" listens "$dir/liar.sock"
must_fail nbdloop backup "nbd+unix:///?socket=$dir/liar.sock" "$dir/copy.img"
grep -q 'Input/output error' "$dir/refused.log" || fail "the error is: $(cat "$dir/refused.log")"
[ ! -e "$dir/copy.img" ] || fail "there is a copy"
end_process liar KILL
