#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop list, status, set, resize and check take an export of a running nbdloopd in place of a
# device: named as for nbdloop export, with the same results and errors.  nbdloop check reads from a
# device past the page cache, and waits no longer than it is told.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
control=$dir/disk.ctl
truncate -s 1M "$dir/disk.img" "$dir/closed.img"
start_nbdloopd --control "$control" --export="disk=$dir/disk.img" --export="nbd0=$dir/closed.img,allow=user:nobody"
use_recorded_system
mkdir -p "$NBDLOOP_SYSROOT/run/nbdloopd" "$NBDLOOP_SYSROOT/dev"
ln -s "$control" "$NBDLOOP_SYSROOT/run/nbdloopd/control.sock"

refuses() # STATUS REGEX ARGUMENT...
{
	local expected=$1 wanted=$2 status=0
	shift 2
	timeout $((20 * time_factor)) nbdloop "$@" >"$dir/said.out" 2>"$dir/said.log" </dev/null || status=$?
	expect_equal "status of nbdloop $*" "$expected" "$status"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/said.log" || fail "nbdloop $* doesn't say: $wanted"
	[ ! -s "$dir/said.out" ] || fail "nbdloop $* prints something, though it fails"
}

# ---- the same tables, settings and sizes
for name in "$control" "$control:disk" disk; do
	expect_equal "list of $name" "$(nbdloop export list "$name")" "$(nbdloop list "$name")"
done
expect_equal "chosen columns" "disk 1048576" "$(nbdloop list --noheadings -O NAME,SIZE disk)"
nbdloop list --json disk >"$dir/json"
"$python" -c 'import json, sys; assert [e["name"] for e in json.load(open(sys.argv[1]))["exports"]] == ["disk"]' "$dir/json" ||
	fail "the JSON is: $(cat "$dir/json")"
expect_equal "what set prints" "disk: direct I/O off
disk: iops-limit 500,burst:2000" "$(nbdloop set --iops-limit="500 burst:2000" --direct-io=no disk)"
expect_equal "what export set prints" "disk: iops-limit 0" "$(nbdloop export set --iops-limit=0 disk)"
truncate -s 2M "$dir/disk.img"
expect_equal "what resize prints" "2097152 bytes" "$(nbdloop resize "$control:disk")"

# ---- figures
server_pid=$pid
spawn reader "$python" -c 'import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
print("connected", flush=True)
while True:
    h.pread(4096, 0)' "nbd+unix:///disk?socket=$sock"
wait_until "the client is connected" grep -qs connected "$dir/reader.log"
nbdloop status disk >"$dir/status"
grep -qx "disk: $dir/disk.img, 2M, writable" "$dir/status" || fail "the first line is: $(head -n 1 "$dir/status")"
grep -qE "^nbdloopd .*, process $server_pid: 1 connection," "$dir/status" || fail "there is no line about the server"
grep -qE '^read +[1-9][0-9.]+ +[0-9.]+ +4\.0 +- +<[0-9]+' "$dir/status" || fail "there are no reads: $(grep '^read' "$dir/status")"
nbdloop status --json "$control:disk" >"$dir/json"
"$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["export"] == "disk" and d["requests"]["read"]["iops"] > 1 and "busy" not in d, d
assert [e["name"] for e in d["server-status"]["exports"]] == ["disk"], d' "$dir/json" || fail "the JSON is: $(cat "$dir/json")"
end_process reader KILL
pid=$server_pid

# ---- a name that could be both
expect_equal "a device of an export's name" "/dev/nbd0" "$(nbdloop list --noheadings -O NAME nbd0)"
expect_equal "the export of that name" "nbd0" "$(nbdloop list --noheadings -O NAME "$control:nbd0")"
expect_equal "a socket of that name" "disk;nbd0" "$(cd "$dir" && ln -s disk.ctl nbd0 && nbdloop list --noheadings -O NAME nbd0 | paste -sd';')"

# ---- check: whatever the rules are, and the state of the image
quietly nbdloop check disk
quietly nbdloop check "$control:nbd0"
on_terminal() # ARGUMENT...
{
	"$python" -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], lambda fd: os.read(fd, 1000))))' nbdloop "$@" </dev/null | tr -d '\r'
}
on_terminal check disk >"$dir/said" || fail "check fails on a terminal"
grep -qxE 'ok, [0-9]+\.[0-9] ms' "$dir/said" || fail "on a terminal, check says: $(cat "$dir/said")"
# The time limit is for all of it: also for the status, for which other verbs wait 5 seconds.
kill -STOP "$pid"
started=$(date +%s%3N)
refuses 1 "control.sock: the server doesn't answer: it took too long" check --timeout=1 disk
took=$(($(date +%s%3N) - started))
kill -CONT "$pid"
[ "$took" -ge 900 ] && [ "$took" -lt 4900 ] || fail "a check with a limit of 1 second takes $took ms"
truncate -s 0 "$dir/closed.img"
refuses 1 'the read failed: the server reports error 5' check "$control:nbd0"

# ---- check of a device: a file in its place, which can be read directly, is missing, or hangs
node=$NBDLOOP_SYSROOT/dev/nbd0
refuses 1 "/dev/nbd0 can't be opened: No such file or directory" check nbd0
head -c 1M /dev/zero >"$node"
if dd if="$node" of="$dir/copy" bs=4096 count=1 iflag=direct 2>/dev/null; then
	quietly nbdloop check /dev/nbd0
	on_terminal check nbd0 | grep -xE 'ok, [0-9]+\.[0-9] ms' >/dev/null || fail "check of a device says something else"
fi
rm "$node"
mkfifo "$node"
# The process that hangs keeps none of the command's files open.
timeout $((20 * time_factor)) nbdloop check --timeout=1 nbd0 2>&1 | cat >"$dir/said" || true
grep -qx 'nbdloop: /dev/nbd0: the read was not answered in time' "$dir/said" || fail "check of a hanging device says: $(cat "$dir/said")"
refuses 1 'there is no device /dev/nbd77' check nbd77

# ---- errors
refuses 1 'there is no export "none"; nbdloop export list .* shows all' list none
refuses 1 'there is no export "none"; nbdloop export list .* shows all' check "$control:none"
refuses 1 'there is no export "none"; nbdloop export list .* shows all' resize "$control:none"
refuses 2 'disk.ctl has several exports: name one, as in .*disk.ctl:EXPORT: "' status "$control"
refuses 1 'disk.ctl has several exports: name one' check "$control"
refuses 1 'disk.ctl has several exports: name one' set --allow=any "$control"
refuses 2 'disk.img is neither a device, .*, nor the control socket of a server' status "$dir/disk.img"
[ "$(id -u)" != 0 ] || [ -e /sys/block/nbd7 ] || refuses 1 'there is no device /dev/nbd77' set --iops-limit=5 nbd77
stop_server
refuses 1 'disk.ctl' check "$control:disk"
