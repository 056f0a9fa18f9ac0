#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When an operation that serves several adjacent requests fails, the server tries each request by
# itself: those that can be carried out are, the others get the error, and no failed request is
# answered with success.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require strace
image=$dir/disk.img
dd if=/dev/urandom of="$image" bs=1M count=1 status=none
cp "$image" "$dir/copy.img"
start_nbdloopd --threads=1 --engine=threads "$image"
# The first write of each thread fails; each thread's calls go to a file of its own.
spawn strace strace -ff -s 0 -p "$pid" -o "$dir/calls" -e trace=pwrite64 -e inject=pwrite64:error=EIO:when=1
wait_until "strace looks at the server" grep -q attached "$dir/strace.log"
"$python" "$own_python" "$sock" "$image" "$dir/copy.img" "$dir/calls" >"$dir/client.log" 2>&1 || fail "errors are not told apart"
end_process strace INT
stop_server
