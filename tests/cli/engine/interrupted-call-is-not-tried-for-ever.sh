#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A system call that is interrupted on every attempt fails eventually: the client gets an error, and
# the server ends when it is told to.
. "$(dirname "$0")/../../lib/functions.sh"

require strace
require_python_nbd
image=$dir/disk.img
truncate -s 1M "$image"

cat >"$dir/client.py" <<'EOF'
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"x" * 4096, 0)
h.flush()
EOF

ends()
{
	start_server -- "$image" engine=threads direct-io=off
	trace -e trace=fdatasync -e inject=fdatasync:error=EINTR
	must_fail "$python" "$dir/client.py" "$uri"
	grep -q 'nbd_flush: .*Input/output error' "$dir/refused.log" || fail "the flush was not answered with an error"
	untrace
	expect_log 'disk.img: .*Interrupted system call'
	stop_server
}

for server_program in $servers; do
	ends
done
