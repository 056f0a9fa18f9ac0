#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup -i doesn't note a file as its backup that got the target's name while the increment
# was written: the next increment would be written into that.  And a new directory of deltas is
# there after a power cut: its parent is synced, too, even if that can't be read.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io strace cmp setpriv
truncate -s 4M "$dir/disk.img"
raw=$dir/raw.img
start_nbdloopd --control "$dir/control" "$dir/disk.img"
quietly nbdloop backup "$dir/control" "$raw"
quietly qemu-io -f raw -c "write -P 1 1M 64k" "$uri"
cp "$raw" "$dir/foreign.img"

ASAN_OPTIONS=detect_leaks=0 spawn increment strace -f -qq -o "$dir/calls" -P "$raw" -e trace=fsync \
	-e inject=fsync:signal=STOP:when=1 nbdloop backup -i "$dir/control" "$raw"
wait_until "the increment is written" grep -qs 'stopped by SIGSTOP' "$dir/calls"
mv "$raw" "$dir/own.img"
cp "$dir/foreign.img" "$raw"
kill -CONT "$(awk '{ print $1; exit }' "$dir/calls")"
end_process increment
[ "$end_status" != 0 ] || fail "the file that was put there is taken for the backup"
grep -q 'raw.img is another file than the one that the increment .*raw.img.redo was begun on' "$dir/increment.log" ||
	fail "it doesn't say why: $(cat "$dir/increment.log")"
must_fail nbdloop backup -i "$dir/control" "$raw"
quietly cmp "$dir/foreign.img" "$raw"

# ---- the file itself can be put back
mv "$dir/own.img" "$raw"
quietly qemu-io -f raw -c "write -P 2 2M 64k" "$uri"
quietly nbdloop backup -i "$dir/control" "$raw"
quietly cmp "$dir/disk.img" "$raw"

# ---- a new directory
ASAN_OPTIONS=detect_leaks=0 quietly strace -f -y -qq -o "$dir/calls" -e trace=fsync \
	nbdloop backup --format=delta "$dir/control" "$dir/chain/"
grep -qE "fsync\([0-9]+<$(realpath "$dir")>\) += 0" "$dir/calls" || fail "the parent of the new directory is not synced"

# ---- in a directory in which files may be made, and which may not be read
mkdir "$dir/unread"
chmod 0311 "$dir/unread"
unable=()
[ "$(id -u)" != 0 ] || unable=(setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-all)
quietly "${unable[@]}" nbdloop backup --format=delta "$dir/control" "$dir/unread/chain/"
stop_server
