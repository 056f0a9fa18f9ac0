#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Images in Ceph: what is wrong with one is explained at the start, what does not apply to one is
# refused with the reason, a snapshot is read-only and does not change, requests wait for an OSD
# that stands still, a change beyond the end of an image that was made smaller fails, and a process
# without such an image has none of Ceph's libraries.
. "$(dirname "$0")/../../lib/functions.sh"

if [ "${1:-}" != in-cluster ]; then
	[ -e "$top_builddir/engine/nbdloop-rbd.so" ] || skip "built without librbd"
	[ -z "${NBDLOOP_VALGRIND:-}" ] || skip "valgrind would check Ceph's libraries"
	mkdir "$dir/ceph"
	status=0
	timeout -k 10 $((240 * time_factor)) "$lib/ceph-cluster" "$dir/ceph" bash "$(realpath "$0")" in-cluster </dev/null >"$dir/out" 2>&1 || status=$?
	[ $status -ne 77 ] || skip "$(tail -n 1 "$dir/out")"
	if [ $status -ne 0 ]; then
		cat "$dir/out" >&2
		fail "status $status: $(tail -n 1 "$dir/out")"
	fi
	exit 0
fi

# refused TEXT NBDLOOPD-ARGUMENT...
refused()
{
	local text=$1
	shift
	if nbdloopd --unix="$dir/refused.sock" "$@" >"$dir/refused" 2>&1; then
		fail "started: $*"
	fi
	grep -qF -- "$text" "$dir/refused" || fail "$*: no \"$text\" in: $(cat "$dir/refused")"
}

rbd create --size 64M rbd/disk
refused "there is no such image or snapshot" rbd:rbd/none
refused "pool none" rbd:none/disk
refused "there is no such image or snapshot" rbd:rbd/disk@none
refused "rbd:POOL/NAMESPACE/IMAGE" rbd:rbd
refused "the image is in Ceph" --direct-io=on rbd:rbd/disk
refused "the image is in Ceph" --page-cache=drop rbd:rbd/disk
refused "the image is in Ceph" --engine=io_uring rbd:rbd/disk
refused "poll=on is not possible: the image is in Ceph" --poll=on rbd:rbd/disk
refused "lock=exclusive is not possible for a reader" --read-only --lock=exclusive rbd:rbd/disk
refused "ceph-conf=FILE" --ceph-conf="$dir/none" rbd:rbd/disk
rbd create --size 4M --image-feature layering rbd/plain
refused "the image has no exclusive lock" rbd:rbd/plain
for setting in "rbd_cache true" "rbd_blocklist_on_break_lock false"; do
	# shellcheck disable=SC2086 # name and value
	rbd config image set rbd/disk $setting
	refused "the image's own setting ${setting/ /=}" rbd:rbd/disk
	rbd config image rm rbd/disk "${setting% *}"
done
rbd config pool set rbd rbd_cache true
refused "the pool's own setting rbd_cache=true" rbd:rbd/disk
rbd config pool rm rbd rbd_cache
# Nobody listens on port 1.
sed 's/127\.0\.0\.1:[0-9]*/127.0.0.1:1/' "$CEPH_CONF" >"$dir/away.conf"
SECONDS=0
refused "no monitor of the cluster has answered within 10 seconds" --ceph-conf="$dir/away.conf" rbd:rbd/disk
[ $SECONDS -lt $((30 * time_factor)) ] || fail "an unreachable monitor was found after $SECONDS seconds"

# uri NAME
uri_of()
{
	echo "nbd+unix:///?socket=$dir/$1.sock"
}

# serve NAME ARGUMENT...
serve()
{
	local name=$1
	shift
	nbdloopd --unix="$dir/$name.sock" --control="$dir/$name.control" "$@" 2>"$dir/$name.log" &
	process_pids[$name]=$!
	until [ -S "$dir/$name.sock" ]; do
		kill -0 ${process_pids[$name]} || fail "$(cat "$dir/$name.log")"
		sleep 0.05
	done
}

truncate -s 1M "$dir/disk.img"
serve file "$dir/disk.img"
if grep -E 'librbd|librados' "/proc/${process_pids[file]}/maps"; then
	fail "Ceph's libraries are loaded for a file"
fi

serve disk rbd:rbd/disk
qemu-io -f raw -c 'write -P 1 0 8M' "$(uri_of disk)" >/dev/null
rbd snap create --no-progress rbd/disk@one
qemu-io -f raw -c 'write -P 2 0 8M' "$(uri_of disk)" >/dev/null
serve snapshot rbd:rbd/disk@one
qemu-io -r -f raw -c 'read -P 1 0 8M' "$(uri_of snapshot)" >"$dir/read"
qemu-io -f raw -c 'write -P 4 0 8M' "$(uri_of disk)" >/dev/null
qemu-io -r -f raw -c 'read -P 1 0 8M' "$(uri_of snapshot)" >>"$dir/read"
if grep 'verification failed' "$dir/read"; then fail "the snapshot has changed"; fi
nbdinfo "$(uri_of snapshot)" | grep 'is_read_only: true' >/dev/null || fail "a snapshot is writable"
printf 'status\n' | nc -NU "$dir/disk.control" >"$dir/status"
owner=$(rbd lock ls --format json rbd/disk | jq -r '.[0].address')
jq -e --arg owner "$owner" '.exports[0].ceph | .pool == "rbd" and .image == "disk" and .lock_owner and
	.lock_address == $owner and (.fenced | not)' "$dir/status" >/dev/null ||
	fail "wrong status: $(cat "$dir/status")"

# has_size NAME BYTES
has_size()
{
	[ "$(nbdinfo --size "$(uri_of "$1")")" = "$2" ]
}

# Both servers hear of a new size.
spawn plugin nbdkit -f -U "$dir/plugin.sock" "$plugin" rbd:rbd/disk
wait_until "the plugin listens" [ -S "$dir/plugin.sock" ]
[ "$(nbdinfo --size "$(uri_of plugin)")" = $((64 << 20)) ] || fail "the plugin's size"
rbd resize --no-progress --size 96M rbd/disk
wait_until "the new size" has_size disk $((96 << 20))
wait_until "the plugin's new size" has_size plugin $((96 << 20))
grep -q 'resized elsewhere, from 67108864 to 100663296 bytes' "$dir/disk.log" || fail "no line about the new size"
end_process plugin TERM

# An OSD stands still under load: requests wait, and none fails, but with a timeout they do.
rbd create --size 8M rbd/timed
patience=$((3 * time_factor))
serve timed --cluster-timeout=$patience rbd:rbd/timed
# The owner of the lock knows the extents, a reader asks the cluster.
serve searched --read-only --cluster-timeout=$patience rbd:rbd/timed
rbd create --size 8M rbd/left
serve left --drain-limit=0 rbd:rbd/left
qemu-io -f raw -c 'write -P 1 0 4k' "$(uri_of left)" >/dev/null
qemu-io -f raw -c 'write -P 1 0 8k' "$(uri_of timed)" >/dev/null
cd "$dir"
fio --name=load --ioengine=nbd --uri="$(uri_of disk)" --rw=randwrite --bs=4k --iodepth=16 --size=32M \
	--verify=crc32c --do_verify=1 --verify_fatal=1 --output="$dir/fio" &
load=$!
sleep 0.3
kill -STOP "$(cat "$CEPH_DIR/osd0.pid")"
status=0
timeout $((60 * time_factor)) nbdinfo --map "$(uri_of searched)" >"$dir/map" 2>&1 || status=$?
[ "$status" = 1 ] || fail "a search for extents without the cluster ends with status $status: $(cat "$dir/map")"
grep -q 'extents of .* failed: Connection timed out' "$dir/searched.log" || fail "searched: $(cat "$dir/searched.log")"
if "$python" -c 'import nbd, sys; c = nbd.NBD(); c.connect_uri(sys.argv[1]); c.pwrite(b"2" * 4096, 0)' "$(uri_of timed)" 2>"$dir/write"; then
	fail "a write succeeds without the cluster"
fi
grep -q 'Input/output error' "$dir/write" || fail "a write without the cluster: $(cat "$dir/write")"
printf 'status\n' | nc -NU "$dir/timed.control" >"$dir/status"
jq -e '.exports[0].ceph | .cluster_timeout > 1 and .waiting_since' "$dir/status" >/dev/null ||
	fail "wrong status: $(cat "$dir/status")"
# waits NAME: prints since when
waits()
{
	printf 'status\n' | nc -NU "$dir/$1.control" | jq -re '.exports[0].ceph.waiting_since // empty'
}
# The end of a server does not wait for the cluster.
qemu-io -f raw -c 'write -P 2 0 4k' "$(uri_of left)" >"$dir/left.write" 2>&1 &
wait_until "its request waits" waits left
[ $(($(date +%s) - $(date +%s -d "$(waits left)"))) -lt $((60 * time_factor)) ] || fail "waits since $(waits left)"
end_process left TERM
grep -q 'exits without closing' "$dir/left.log" || fail "left: $(cat "$dir/left.log")"
kill -CONT "$(cat "$CEPH_DIR/osd0.pid")"
wait $load || fail "fio: $(cat "$dir/fio")"
if grep -i 'failed' "$dir/disk.log"; then fail "a request has failed"; fi
[ "$(grep -c "not answered for $patience seconds (cluster-timeout): requests fail" "$dir/timed.log")" -eq 1 ] ||
	fail "timed: $(cat "$dir/timed.log")"
wait_until "the cluster answers again" grep -q 'answers again' "$dir/timed.log"
qemu-io -f raw -c 'write -P 3 0 4k' -c 'read -P 3 0 4k' -c 'read -P 1 4k 4k' "$(uri_of timed)" >"$dir/read"
if grep 'verification failed' "$dir/read"; then fail "timed: wrong data"; fi
if waits timed; then fail "requests wait"; fi

rbd create --size 8M rbd/sized
serve sized rbd:rbd/sized
"$python" "$own_python" "$(uri_of sized)" || fail "the size"

# The example of a configuration.
rbd create --size 8M rbd/example
rbd snap create --no-progress rbd/example@monday
sed -e "s|/etc/ceph/ceph.conf|$CEPH_CONF|" -e 's|rbd:rbd/disk|rbd:rbd/example|' -e "s|/run/nbdloopd/|$dir/example-|" \
	"$lib/../../examples/ceph.conf" >"$dir/example.conf"
spawn example nbdloopd --config "$dir/example.conf" --pid-file "$dir/example.ready"
wait_until "the example is served" test -s "$dir/example.ready"
[ "$(nbdinfo --size "nbd+unix:///disk?socket=$dir/example-nbd.sock")" = $((8 << 20)) ] || fail "the example's image"
nbdinfo --is readonly "nbd+unix:///monday?socket=$dir/example-nbd.sock" || fail "the example's snapshot can be written"
