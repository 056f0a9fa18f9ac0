#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints of images in Ceph are snapshots of the cluster: increments of them are the image, and
# all servers have them, also after a restart. What others do to the image counts, and a checkpoint
# that is no longer there says so.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/ceph.sh"

require jq nbdinfo qemu-io
in_cluster 240

refuses() # TEXT COMMAND...
{
	local text=$1
	shift
	if "$@" >"$dir/refused" 2>&1; then fail "succeeded: $*"; fi
	grep -qF -- "$text" "$dir/refused" || fail "$*: no \"$text\" in: $(cat "$dir/refused")"
}

in_ceph() # IMAGE [NAME]: prints the snapshots that are checkpoints, of that name
{
	rbd snap ls --format json "rbd/$1" | jq -r --arg start "nbdloop-checkpoint.${2+$2.}" '.[].name | select(startswith($start))'
}

names() # CONTROL: prints the checkpoints that a server has
{
	nbdloop checkpoint list --json "$1" | jq -r '.[].name'
}

has() # CONTROL NAME
{
	names "$1" | grep -x "$2" >"$dir/names"
}

has_no() # CONTROL NAME
{
	! has "$@"
}

changed() # SOCKET NAME [EXPORT]: prints "START-END" of what has changed since, in KiB
{
	nbdinfo --json --map="qemu:dirty-bitmap:$2" "nbd+unix:///${3-disk}?socket=$1" |
		jq -r 'map(select(.type == 1) | "\(.offset / 1024)-\((.offset + .length) / 1024)") | join(" ")'
}

write_at() # KIB LENGTH [IMAGE]: by another client of Ceph
{
	qemu-io -f raw -c "write -P $((RANDOM % 255 + 1)) ${1}k $2" "rbd:rbd/${3-disk}:conf=$CEPH_CONF" >"$dir/qemu-io" || fail "$(cat "$dir/qemu-io")"
}

# What differs between a checkpoint and the image now is told as changed, and so is what the image
# did not have then; and not much more.
tells_all() # EXPORT NAME
{
	rm -f "$dir/then" "$dir/now"
	rbd export --no-progress "rbd/$1@$(in_ceph "$1" "$2")" "$dir/then"
	rbd export --no-progress "rbd/$1" "$dir/now"
	"$python" - "$dir/then" "$dir/now" "$(changed "$main" "$2" "$1")" <<'PYTHON' || fail "of $1"
import sys
then, now = (open(path, "rb").read() for path in sys.argv[1:3])
told = [tuple(int(end) for end in run.split("-")) for run in sys.argv[3].split()]
differs = [at for at in range(0, len(now) // 1024, 4) if then[at * 1024:at * 1024 + 4096] != now[at * 1024:at * 1024 + 4096]]
missing = [at for at in differs if not any(start <= at < end for start, end in told)]
assert differs and not missing, (missing[:9], told)
assert sum(end - start for start, end in told) < 20 << 10, told
PYTHON
}

# Increments, while clients change the image.
rbd create --size 48M --object-size 1M rbd/disk
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk
main=$sock
"$python" "${0%.sh}.py" "$sock" "$dir/control" >"$dir/model.log" 2>&1 || fail "$(cat "$dir/model.log")"
[ "$(names "$dir/control" | tr '\n' ' ')" = "first moment0 moment1 moment2 moment3 " ] || fail "$(nbdloop checkpoint list "$dir/control")"

# A backup, and an increment of it.
nbdloop backup --export=disk "$dir/control" "$dir/disk.backup"
"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"i" * 5120, 7 << 20)' "nbd+unix:///disk?socket=$sock"
nbdloop backup --incremental --export=disk --json "$dir/control" "$dir/disk.backup" >"$dir/increment"
[ "$(tail -n 1 "$dir/increment" | jq .data)" -le 65536 ] || fail "an increment of 5 KiB: $(tail -n 1 "$dir/increment")"
rbd export --no-progress rbd/disk "$dir/disk.export"
cmp "$dir/disk.backup" "$dir/disk.export"
for name in moment0 moment1 moment2 moment3; do
	nbdloop checkpoint delete "$dir/control" $name
done

# Another server. Each sees what the other one begins and ends, and so do its clients.
server=second
start_nbdloopd --control "$dir/second.control" --export other=rbd:rbd/disk
server=server
nbdloop checkpoint create "$dir/second.control" late
wait_until "a server sees the checkpoint of another one" has "$dir/control" late
[ -z "$(changed "$main" late)" ] || fail "changed: $(changed "$main" late)"
cat >"$dir/holds.py" <<'PYTHON'
import sys
import nbd
h = nbd.NBD()
h.set_export_name("disk")
h.add_meta_context("qemu:dirty-bitmap:late")
h.connect_unix(sys.argv[1])
ask = lambda: h.block_status(1 << 20, 0, lambda *_: 0)
ask()
print("holds", flush=True)
sys.stdin.readline()
try:
    ask()
except nbd.Error as error:
    sys.exit(0 if error.errno == "EINVAL" else f"{error}")
sys.exit("a checkpoint that has ended still tells")
PYTHON
mkfifo "$dir/go"
"$python" "$dir/holds.py" "$main" <"$dir/go" >"$dir/holds.log" 2>&1 &
holder=$!
exec 7>"$dir/go"
wait_until "a client has the bitmap" grep -qx holds "$dir/holds.log"
nbdloop checkpoint delete "$dir/second.control" late
echo >&7
wait $holder || fail "a client of a checkpoint that has ended: $(cat "$dir/holds.log")"
wait_until "a server sees the end" has_no "$dir/control" late
stop_server
server=second
stop_server
server=server

# What others change while no server is there, also by a rollback; what is new, and what was cut.
rbd snap create --no-progress rbd/disk@old
write_at 1024 4k
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk
nbdloop checkpoint create "$dir/control" before
stop_server
write_at 4096 8k
rbd snap rollback --no-progress rbd/disk@old
rbd resize --no-progress --allow-shrink --size 40M rbd/disk
rbd resize --no-progress --size 50M rbd/disk
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk
tells_all disk before
[ "$(stat -c %s "$dir/now")" -eq $((50 << 20)) ] || fail "the image has another size"
stop_server

# An image on top of another one. What it hides of that one has changed.
rbd snap protect rbd/disk@old
rbd clone rbd/disk@old rbd/child
cp "$dir/now" "$dir/file.img"
start_nbdloopd --control "$dir/control" --export child=rbd:rbd/child --export file="$dir/file.img"
nbdloop checkpoint create "$dir/control" both
"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.trim(1 << 20, 3 << 20); h.zero(4096, 9 << 20); h.pwrite(b"c" * 512, 11 << 20)' \
	"nbd+unix:///child?socket=$main"
tells_all child both
rbd resize --no-progress --allow-shrink --size 30M rbd/child
rbd resize --no-progress --size 48M rbd/child
tells_all child both
[ -z "$(changed "$main" both file)" ] || fail "changed in a file: $(changed "$main" both file)"
nbdloop checkpoint delete "$dir/control" both
[ -z "$(in_ceph child)" ] || fail "left: $(in_ceph child)"
stop_server

# What is refused, and leaves nothing.
start_nbdloopd --control "$dir/control" --export disk=rbd:rbd/disk
refuses "granules of 4 KiB" nbdloop checkpoint create --granularity=1M "$dir/control" coarse
refuses "is a checkpoint before already" nbdloop checkpoint create "$dir/control" before
refuses "there is no checkpoint none" nbdloop checkpoint delete "$dir/control" none
rbd snap protect "rbd/disk@$(in_ceph disk before)"
refuses "rbd snap unprotect" nbdloop checkpoint delete "$dir/control" before
rbd snap unprotect "rbd/disk@$(in_ceph disk before)"
rbd snap limit set --limit $(($(rbd snap ls --format json rbd/disk | jq length) + 1)) rbd/disk
nbdloop checkpoint create "$dir/control" third || fail "$(rbd snap ls rbd/disk)"
refuses "Disk quota exceeded" nbdloop checkpoint create "$dir/control" fourth
rbd snap limit clear rbd/disk
has "$dir/control" third && has_no "$dir/control" fourth || fail "$(nbdloop checkpoint list "$dir/control")"
server=reader
start_nbdloopd --control "$dir/reader.control" --read-only rbd:rbd/disk
refuses "open read-only here" nbdloop checkpoint create "$dir/reader.control" fourth
refuses "open read-only here" nbdloop checkpoint delete "$dir/reader.control" third
[ -z "$(changed "$sock" third "")" ] || fail "a reader sees changes: $(changed "$sock" third "")"
stop_server
server=server
refuses "in the cluster" nbdloopd --unix "$dir/unused.sock" --changes="$dir/changes" rbd:rbd/disk

# Without the cluster, the end of one fails in time, and is made good.
kill -STOP "$(cat "$CEPH_DIR/osd0.pid")"
SECONDS=0
refuses "needs more than some seconds to remove the checkpoint" nbdloop checkpoint delete "$dir/control" third
[ $SECONDS -lt $((20 * time_factor)) ] || fail "the end of a checkpoint without the cluster has failed only after $SECONDS seconds"
kill -CONT "$(cat "$CEPH_DIR/osd0.pid")"
wait_until "a checkpoint ends as soon as the cluster is back" has_no "$dir/control" third
[ -z "$(in_ceph disk third)" ] || fail "left: $(in_ceph disk)"
stop_server
