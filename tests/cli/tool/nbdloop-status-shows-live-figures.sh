#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop status shows what happened between two samples: the kernel's counters, from a recorded
# tree that changes in between, and the latencies of a real server's requests. It ends when the
# device is detached.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
control=$dir/control
image=$dir/disk.img
head -c 10M /dev/zero >"$image"
start_nbdloopd --control "$control" --sector-size=4096 "$image"
server_pid=$pid
use_recorded_system
block=$NBDLOOP_SYSROOT/sys/block/nbd0
echo "nbdloop:$control" >"$block/backend"

# Replaces a file atomically, as the kernel does with its figures.
set_file() # FILE TEXT
{
	echo "$2" >"$1.new"
	mv "$1.new" "$1"
}

lines_of() # COUNT
{
	[ "$(wc -l <"$dir/watch.log")" -ge "$1" ]
}

set_file "$block/stat" '100 0 800 50 0 0 0 0 0 500 550 0 0 0 0 0 0'
set_file "$block/inflight" '3 2'
spawn watch nbdloop status --json --watch=1 /dev/nbd0
wait_until "the first report" lines_of 1

# The kernel's side: 1,000 reads of 4 KiB that took 2 ms each, and 10 flushes; the server's side:
# 100 reads, 50 writes and a zero.
set_file "$block/stat" '1100 0 8800 2050 0 0 0 0 0 700 2550 0 0 0 0 10 20'
"$python" - "$uri" <<'EOF2' >"$dir/client.log" 2>&1 || fail "the client fails"
import sys
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for i in range(100):
    h.pread(4096, i * 4096)
for i in range(50):
    h.pwrite(b"x" * 4096, i * 4096)
h.zero(65536, 1 << 20)
EOF2
reports=$(wc -l <"$dir/watch.log")
wait_until "two more reports" lines_of $((reports + 2))
set_file "$block/inflight" '0 0'
rm "$block/pid"
end_process watch
expect_equal "status of nbdloop when the device was detached" 1 "$end_status"
grep -v '^{' "$dir/watch.log" >"$dir/said.log" || true
grep -qx "nbdloop: /dev/nbd0 is not attached" "$dir/said.log" || fail "nothing tells why it ended"

"$python" "$own_python" "$dir/watch.log" "$server_pid" "$image" >"$dir/check.log" 2>&1 || fail "wrong figures"

# ---- for human readers
set_file "$block/pid" 812
nbdloop status nbd0 >"$dir/text.log" || fail "nbdloop status fails"
shows() # REGEX
{
	grep -qE -- "$1" "$dir/text.log" || fail "nbdloop status doesn't show: $1"
}
shows "^/dev/nbd0: $image, 64M, writable, sectors of 512 bytes$"
shows "^nbdloopd [0-9.]+, process $server_pid: 0 connections, engine (io_uring|aio|threads).*, direct I/O (on|off).*, polling off"
shows '^ +IO/s +MB/s +KiB/IO +ms/IO +p50 us +p99 us +max us$'
for operation in read write flush discard zero; do
	shows "^$operation +0\.0 +0\.0 +- +- +- +- +-$"
done
shows '^in flight: 0 reads, 0 writes; busy 0 % of [1-9][0-9]*\.[0-9] s; requests in the server: 0, failed since the image was opened: 0$'
shows '^on the disk: 0\.0 operations/s, 0\.0 MB/s$'
expect_equal "requests in the histogram" 151 "$(awk '$1 == "<" && NF >= 4 {sum += $4} END {print sum}' "$dir/text.log")"
shows '^ +< [0-9]+ +0 +[0-9]+ +#{40}$'

# One connection is written in the singular.
spawn client "$python" -c 'import nbd, sys, time; h = nbd.NBD(); h.connect_uri(sys.argv[1]); time.sleep(1000)' "$uri"
one_connection()
{
	[ "$(control "$control" status exports.0.connections)" = 1 ]
}
wait_until "there is a connection" one_connection
nbdloop status nbd0 >"$dir/text.log" || fail "nbdloop status fails"
shows "process $server_pid: 1 connection, engine"
end_process client TERM

# ---- the figures of a restarted server begin at 0, and a server that has gone shows none
spawn watch nbdloop status -J --watch nbd0
wait_until "the first report" lines_of 1
stop_server
wait_until "a report without the server" grep -q '"server-status":null' "$dir/watch.log"
rm -f "$control"
start_nbdloopd --control "$control" --sector-size=4096 "$image"
nbdinfo --size "$uri" >"$dir/size.log" 2>&1
reports=$(wc -l <"$dir/watch.log")
wait_until "two more reports" lines_of $((reports + 2))
end_process watch TERM
"$python" - "$dir/watch.log" <<'EOF2' >"$dir/check.log" 2>&1 || fail "a server's whole life is taken for a second"
import json, sys
reports = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
assert sum(sum(sum(o["histogram"]) for o in r["requests"].values()) for r in reports) == 0, reports
assert any(r["server-status"] for r in reports[-1:]), reports[-1]
EOF2
stop_server

# ---- a device without a server to ask, and a device that doesn't exist
nbdloop status /dev/nbd1 >"$dir/text.log" || fail "nbdloop status fails without a server"
shows '^/dev/nbd1: unknown image, 10M, read-only, sectors of 4096 bytes$'
shows '^server: unknown; it reports nothing$'
refuses() # STATUS REGEX [WORD...]
{
	local wanted=$1 regex=$2 status=0
	shift 2
	nbdloop status "$@" >"$dir/said.log" 2>&1 </dev/null || status=$?
	expect_equal "status of nbdloop status $*" "$wanted" "$status"
	grep -qE -- "$regex" "$dir/said.log" || fail "nbdloop status $* doesn't say: $regex"
}
refuses 1 "^nbdloop: /dev/nbd2 is not attached$" /dev/nbd2
refuses 1 '^nbdloop: there is no device /dev/nbd7; ' nbd7
refuses 2 '^nbdloop: /dev/sda is no device of the nbd driver' /dev/sda
refuses 2 '^nbdloop: --watch=0: must be ' --watch=0 nbd0
refuses 2 '^nbdloop: DEVICE.* is missing: ' --json
rm "$block/stat"
refuses 2 '/nbd0/stat' nbd0
