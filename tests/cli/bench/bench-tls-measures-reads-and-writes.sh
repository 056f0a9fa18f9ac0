#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/tls measures reads and writes of nbdloopd over TLS.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/tls
CC=${CC:-cc}
require python3 "${CC%% *}"
$CC -E -include gnutls/gnutls.h -x c /dev/null >/dev/null 2>&1 || skip "GnuTLS's headers are not installed"
nbdloopd --help | grep -e --tls-psk >/dev/null || skip "this nbdloopd was built without GnuTLS"
export NBDLOOPD
NBDLOOPD=$(command -v nbdloopd)
"$bench" --servers nbdloopd --runs 1 --seconds 0.2 --directory "$dir" >"$dir/table.log" 2>"$dir/bench.log" ||
	fail "the bench failed"
expect_equal "what was measured" "1 MiB reads, depth 8;1 MiB writes, depth 8;4 KiB reads, depth 128;4 KiB reads, depth 32" \
	"$(sed -nE 's/^\| ([0-9][^|]*) \| nbdloopd \| [1-9].*/\1/p' "$dir/table.log" | sort | paste -sd ';')"
# A request costs the server and the client something.
expect_equal "costs" 4 "$(grep -cE '\| ([1-9][0-9,.]*|0\.[0-9]*[1-9][0-9]*) \| – \| ([1-9][0-9,.]*|0\.[0-9]*[1-9][0-9]*) \|$' "$dir/table.log")"
