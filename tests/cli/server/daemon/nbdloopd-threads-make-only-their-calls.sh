#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each thread of a running nbdloopd can make the system calls that
# nbdloopd-threads-make-only-their-calls.txt lists for its kind, and no other, as root and as
# another user. A change of the server's lists (server/sandbox/call_lists.c) changes that table.
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "looking at the filters of another process"
require_python_nbd
require psktool
[ "$(uname -m)" = x86_64 ] || skip "the table is of x86-64"
[ -e /usr/include/x86_64-linux-gnu/asm/unistd_64.h ] || skip "no names of system calls: linux-libc-dev is not installed"
truncate -s 16M "$dir/helped.img" "$dir/swept.img" "$dir/recorded.img"
psktool -u alice -p "$dir/keys.psk" >/dev/null 2>&1
chmod 755 "$dir"
chown nobody "$dir"/*.img

threads_make_their_calls() # [OPTION...]
{
	start_nbdloopd --threads=2 --tls=allow --tls-psk="$dir/keys.psk" --http="unix:$dir/http.sock" --control="$dir/control.sock" \
		--export=helped="$dir/helped.img",engine=threads,direct-io=off \
		--export=swept="$dir/swept.img",engine=aio,direct-io=off,page-cache=drop --export=recorded="$dir/recorded.img" "$@"
	expect_log 'sandbox: .*seccomp'
	# Some threads start with the first work for them.
	control "$dir/control.sock" "checkpoint create moment export=recorded" >"$dir/answer" ||
		fail "checkpoint: $(cat "$dir/answer")"
	"$python" - "$sock" <<'END'
import sys
import nbd

for export in "helped", "swept", "recorded":
    client = nbd.NBD()
    client.set_export_name(export)
    client.connect_unix(sys.argv[1])
    for i in range(4):
        client.pwrite(b"x" * 1048576, i << 20)
    client.flush()
    client.pread(4096, 8 << 20)
    client.zero(65536, 0)
    client.shutdown()
client = nbd.NBD()
client.set_export_name("helped")
client.set_tls(nbd.TLS_REQUIRE)
client.set_tls_username("alice")
client.set_tls_psk_file(sys.argv[1].rpartition("/")[0] + "/keys.psk")
client.connect_unix(sys.argv[1])
client.pread(4096, 0)
END
	status=0
	"$python" "$own_python" "$pid" "$srcdir/server/daemon/nbdloopd-threads-make-only-their-calls.txt" >"$dir/calls.log" 2>&1 || status=$?
	[ $status != 77 ] || skip "$(tail -n 1 "$dir/calls.log")"
	[ $status = 0 ] || fail "the threads' calls are not those of the table: $(head -n 20 "$dir/calls.log")"
	stop_server
}

threads_make_their_calls
threads_make_their_calls --user=nobody
