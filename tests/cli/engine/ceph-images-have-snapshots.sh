#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Snapshots of images in Ceph are Ceph's own: each is one moment of the acknowledged writes, a
# backup copies one, and they are removed with their exports. What can't be is refused with the
# reason, a cluster that is away holds nobody else up, and what it makes too late goes away again.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/ceph.sh"

require jq nbdcopy nbdinfo
in_cluster 240

ours() # IMAGE: prints the snapshots that a server has made
{
	rbd snap ls --format json "rbd/$1" | jq -r '.[].name | select(startswith("nbdloop."))'
}

has_snapshots() # IMAGE COUNT
{
	[ "$(ours "$1" | wc -l)" -eq "$2" ]
}

refuses() # TEXT COMMAND...
{
	local text=$1
	shift
	if "$@" >"$dir/refused" 2>&1; then fail "succeeded: $*"; fi
	grep -qF -- "$text" "$dir/refused" || fail "$*: no \"$text\" in: $(cat "$dir/refused")"
}

# One after the other, while clients write: see there.
rbd create --size 32M rbd/disk
rbd create --size 8M rbd/other
rbd snap create --no-progress rbd/other@monday
truncate -s 8M "$dir/file.img"
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk --export other=rbd:rbd/other \
	--export monday=rbd:rbd/other@monday --export "file=$dir/file.img"
main=$sock
"$python" "$lib/snapshot_moments.py" "$sock" "$dir/control" "$pid" ceph >"$dir/check.log" 2>&1 || fail "$(cat "$dir/check.log")"
control "$dir/control" "remove export=moment0" >"$dir/answer"
nbdloop snapshot --remove "$dir/control" moment1
nbdloop snapshot --expire=5 "$dir/control" soon other >"$dir/answer"
for name in moment3 moment4; do
	nbdloop snapshot --remove "$dir/control" "$name"
done
wait_until "removed snapshots are removed from Ceph" has_snapshots disk 0
wait_until "a snapshot is removed at its time" grep -q '"soon": removed' "$log"
wait_until "a snapshot is removed at its time" has_snapshots other 0

# A backup of an image in use. The second counter never overtakes the first one.
cat >"$dir/count.py" <<'PYTHON'
import struct, sys
from client import connect
h = connect(sys.argv[1], "disk", unaligned=True)
for number in range(1, 1 << 40):
    for offset in (0, 16 << 20):
        h.pwrite(struct.pack("<Q", number), offset)
PYTHON
"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"x" * (1 << 20), 1 << 20); h.zero(4096, 0); h.zero(4096, 16 << 20)' \
	"nbd+unix:///disk?socket=$sock"
spawn counter "$python" "$dir/count.py" "$sock"
counts()
{
	[ "$("$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); print(int.from_bytes(h.pread(512, 16 << 20)[:8], "little"))' \
		"nbd+unix:///disk?socket=$sock")" -gt 0 ]
}
wait_until "the counters run" counts
nbdloop backup --export=disk "$dir/control" "$dir/disk.backup"
kill -0 "${process_pids[counter]}" || fail "the counter has ended"
end_process counter TERM
"$python" - "$dir/disk.backup" <<'PYTHON'
import sys
data = open(sys.argv[1], "rb").read()
first, second = (int.from_bytes(data[at:at + 8], "little") for at in (0, 16 << 20))
assert len(data) == 32 << 20 and data[1 << 20:2 << 20] == b"x" * (1 << 20)
assert first > 0 and first - second in (0, 1), (first, second)
PYTHON
# What a killed backup into the same target has left is removed by the next one.
left=$(grep -o 'backup-[0-9a-f]*-' "$log" | head -n 1)left
nbdloop snapshot "$dir/control" "$left" disk >"$dir/answer"
nbdloop backup --force --export=disk "$dir/control" "$dir/disk.backup"
rbd export --no-progress rbd/disk "$dir/disk.export"
cmp "$dir/disk.backup" "$dir/disk.export"
wait_until "the backups' snapshots are removed" has_snapshots disk 0

# What is refused, and leaves nothing.
nbdloop snapshot "$dir/control" now disk >"$dir/answer"
refuses 'export "now": there is one of that name already' nbdloop snapshot "$dir/control" now disk
refuses "is a snapshot" nbdloop snapshot "$dir/control" then monday
refuses "is a snapshot" nbdloop snapshot "$dir/control" then now
rbd snap limit set --limit 1 rbd/other
refuses "Ceph cannot make a snapshot: Disk quota exceeded; \`rbd snap limit\`" nbdloop snapshot "$dir/control" then other
rbd snap limit clear rbd/other
has_snapshots disk 1 || fail "disk has $(ours disk)"
server=reader
start_nbdloopd --control "$dir/reader.control" --read-only rbd:rbd/disk
refuses "open read-only here" nbdloop snapshot "$dir/reader.control" then
stop_server
server=server

# Without the cluster, the request fails, and neither other exports wait nor, later, the image. What
# the cluster makes too late is removed.
kill -STOP "$(cat "$CEPH_DIR/osd0.pid")"
SECONDS=0
nbdloop snapshot "$dir/control" then other >"$dir/late" 2>&1 &
late=$!
status=0
"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"f" * 4096, 0); h.flush()' \
	"nbd+unix:///file?socket=$main" || fail "another export waits for the cluster"
wait $late || status=$?
[ $status -ne 0 ] || fail "a snapshot without the cluster"
grep -q "no snapshot, because the cluster did not make it" "$dir/late" || fail "late: $(cat "$dir/late")"
[ $SECONDS -lt $((20 * time_factor)) ] || fail "a snapshot without the cluster has failed only after $SECONDS seconds"
refuses "not yet answered an earlier request" nbdloop snapshot "$dir/control" then other
kill -CONT "$(cat "$CEPH_DIR/osd0.pid")"
can_again()
{
	nbdloop snapshot "$dir/control" again other >"$dir/answer" 2>&1
}
wait_until "the cluster makes snapshots again" can_again
has_snapshots other 1 || fail "what was made too late is left: $(ours other)"

# Without the monitors, from which librbd gets the number of one while writes wait: these go on
# when the request has failed.
nbdloop snapshot --remove "$dir/control" again
kill -STOP "$(cat "$CEPH_DIR/mon.pid")"
SECONDS=0
if nbdloop snapshot "$dir/control" then other >"$dir/late" 2>&1; then fail "a snapshot without the monitors"; fi
timeout $((15 * time_factor)) "$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"m" * 4096, 0); h.flush()' \
	"nbd+unix:///other?socket=$main" || fail "without the monitors, a snapshot that has failed holds up writes: $SECONDS seconds"
[ $SECONDS -lt $((15 * time_factor)) ] || fail "without the monitors, a write has waited for a snapshot for $SECONDS seconds"
kill -CONT "$(cat "$CEPH_DIR/mon.pid")"
wait_until "the cluster makes snapshots again" can_again
has_snapshots other 1 || fail "what was made too late is left: $(ours other)"

# A file and an image in Ceph at one moment; and the end of the server.
nbdloop snapshot --remove "$dir/control" now
nbdloop snapshot --remove "$dir/control" again
control "$dir/control" "remove export=monday" >"$dir/answer"
nbdloop snapshot --all "$dir/control" both >"$dir/answer"
control "$dir/control" status | jq -c '[.exports[] | select(.snapshot) | .snapshot.method] | sort' >"$dir/methods"
grep -qxE '\["ceph","ceph","(copy|reflink)"\]' "$dir/methods" || fail "the methods are $(cat "$dir/methods")"
stop_server
has_snapshots disk 0 && has_snapshots other 0 || fail "left by the server: $(ours disk) $(ours other)"

# A server that writes nothing keeps no lock: another one that does is not held up.
server=standby
start_nbdloopd --control "$dir/standby.control" --export disk=rbd:rbd/disk
server=server
start_nbdloopd --export disk=rbd:rbd/disk
write_at_once()
{
	timeout $((10 * time_factor)) "$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"w" * 4096, 0)' \
		"nbd+unix:///disk?socket=$sock" || fail "a snapshot of another server holds up writes"
}
nbdloop snapshot "$dir/standby.control" now >"$dir/answer"
write_at_once
stop_server
start_nbdloopd --export disk=rbd:rbd/disk
nbdloop snapshot --remove "$dir/standby.control" now
wait_until "the standby server's snapshot is removed" has_snapshots disk 0
write_at_once
stop_server
server=standby
stop_server
server=server

# A killed server's is known by its name.
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk
nbdloop snapshot "$dir/control" now >"$dir/answer"
end_process server KILL
left=$(ours disk)
[[ $left == nbdloop.now.* ]] || fail "left: $left"
