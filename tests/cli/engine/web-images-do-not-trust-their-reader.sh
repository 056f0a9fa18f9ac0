#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A web server that has taken nbdloop-fetch over can only make reads of images on web servers fail,
# or send false bytes of them: whatever nbdloop-fetch says, nbdloopd neither crashes nor hangs, and
# serves its other images.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/web.sh"

require_python_nbd
image=$dir/disk.raw
head -c 1M /dev/urandom >"$image"
server_files
mkdir "$dir/modules"
# Its first line is the program's; the server gives it no environment.
{
	echo "#!$(command -v "$python")"
	sed "s|@mode@|$dir/mode|" "${own_python}"
} >"$dir/modules/nbdloop-fetch"
chmod 755 "$dir/modules/nbdloop-fetch"

begin_server()
{
	: >"$dir/server.pid"
	NBDLOOP_MODULES=$dir/modules spawn server "$top_builddir/server/nbdloopd" -r --base-timeout=2 -U "$sock" -P "$dir/server.pid" \
		--export "web=http://localhost/disk" --export "file=$image"
	wait_until "the server listens" server_ready_or_gone "$dir/server.pid"
}

# What it says at the start.
for mode in end nothing junk short unknown no-slot idle-slot large negative long-text; do
	web_mode "$mode"
	begin_server
	[ ! -s "$dir/server.pid" ] || fail "an image is served after '$mode'"
	end_process server
	[ "$end_status" -lt 126 ] || fail "the server crashed after '$mode'"
	expect_log 'error: http://localhost/disk: '
done

# What it says to a read.
for mode in read-other read-long read-less read-again read-idle read-junk read-end read-opened read-endless; do
	web_mode "$mode"
	begin_server
	[ -s "$dir/server.pid" ] || fail "no image is served before '$mode': $(cat "$log")"
	quietly "$python" -c '
import sys
import nbd
from client import connect
with open(sys.argv[2], "rb") as f:
    right = f.read()
web, file = connect(sys.argv[1], name="web"), connect(sys.argv[1], name="file")
try:
    web.pread(4096, 8192)
    sys.exit("the read succeeds")
except nbd.Error:
    pass
for i in range(0, len(right), 65536):
    assert file.pread(65536, i) == right[i:i + 65536]
' "$sock" "$image"
	stop_server
done
# What it says is right is what the client gets.
web_mode right
begin_server
quietly "$python" -c '
import sys
from client import connect
assert connect(sys.argv[1], name="web").pread(4096, 8192) == b"x" * 4096
' "$sock"
stop_server
