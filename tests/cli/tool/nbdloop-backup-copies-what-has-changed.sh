#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup --incremental reads only what a dirty bitmap of QEMU has, into a raw image, another
# export, and deltas, which nbdloop restore puts together.  Wherever it is killed, the raw image is
# one that the source once was, and the next increment is right.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-img qemu-io qemu-storage-daemon strace jq cmp
disk=$dir/disk.qcow2
raw=$dir/raw.img
chain=$dir/chain
sock=$dir/source.sock
uri="nbd+unix:///?socket=$sock"

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop $* doesn't say: $wanted"
}

change() # QEMU-IO-COMMAND...
{
	local command arguments=()
	for command; do
		arguments+=(-c "$command")
	done
	quietly qemu-io -f qcow2 "${arguments[@]}" "$disk"
}

serve() # [BITMAP...]
{
	local export="type=nbd,id=e,node-name=q,name=" number=0 bitmap
	for bitmap; do
		export+=",bitmaps.$number=$bitmap"
		number=$((number + 1))
	done
	rm -f "$sock"
	spawn source qemu-storage-daemon --blockdev "driver=file,filename=$disk,node-name=f,read-only=on" \
		--blockdev driver=qcow2,file=f,node-name=q,read-only=on \
		--nbd-server "addr.type=unix,addr.path=$sock" --export "$export"
	wait_until "the source listens" listens "$sock"
}

unserve()
{
	end_process source TERM
}

# The image as it is now.
note_image() # FILE
{
	rm -f "$1"
	quietly qemu-img convert -f qcow2 -O raw "$disk" "$1"
}

data_of() # JSON
{
	tail -n 1 "$1" | jq .data
}

# ---- full backups, which belong to the checkpoint
quietly qemu-img create -f qcow2 "$disk" 32M
change 'write -P 1 0 1M' 'write -P 2 8M 3M' 'write -P 3 33553920 512'
quietly qemu-img bitmap --add "$disk" monday
note_image "$dir/image.0"
truncate -s 32M "$dir/replica.img"
server=replica
start_nbdloopd "$dir/replica.img"
replica=$uri
sock=$dir/source.sock
uri="nbd+unix:///?socket=$sock"
serve monday
quietly nbdloop backup --bitmap=monday "$uri" "$raw"
quietly nbdloop backup --bitmap=monday --format=delta --verify "$uri" "$chain"
quietly nbdloop backup --bitmap=monday --state="$dir/replica.state" "$uri" "$replica"
refuses 'name a file that keeps what .* is a copy of: --state=FILE' backup --bitmap=monday "$uri" "$replica"
refuses '--state is for a target that is a URI' backup --state="$dir/s" "$uri" "$dir/new"
refuses 'chain has backups already: use --incremental' backup --format=delta --bitmap=monday "$uri" "$chain"
unserve
for file in "$raw" "$dir/replica.img"; do
	quietly cmp "$dir/image.0" "$file"
done

# ---- increments
next_increment() # NUMBER [QEMU-IO-COMMAND...]
{
	local number=$1
	shift
	change "$@"
	note_image "$dir/image.$number"
	serve monday
	quietly nbdloop backup -i --verify "$uri" "$raw"
	nbdloop backup -i --format=delta --verify --json "$uri" "$chain" >"$dir/json" || fail "the delta fails"
	quietly nbdloop backup -i --state="$dir/replica.state" "$uri" "$replica"
	unserve
	for file in "$raw" "$dir/replica.img"; do
		quietly cmp "$dir/image.$number" "$file"
	done
}
next_increment 1 'write -P 4 512k 64k' 'write -P 5 20M 128k'
expect_equal "data of the first increment" $((192 << 10)) "$(data_of "$dir/json")"
expect_equal "the delta's file" "$chain/000001.delta" "$(tail -n 1 "$dir/json" | jq -r .file)"
expect_equal "files of the raw backup" "$(printf '%s\n' "$raw" "$raw.state")" "$(ls -d "$raw"*)"
next_increment 2 'write -z 0 256k' 'discard 8M 1M' 'write -P 6 33488896 65536'
quietly qemu-img bitmap --clear "$disk" monday
next_increment 3 'write -P 7 4M 64k'
expect_equal "data since the bitmap was cleared" 65536 "$(data_of "$dir/json")"

# ---- restore
for number in 0 1 2 3; do
	quietly nbdloop restore --until=$number "$chain" "$dir/restored"
	quietly cmp "$dir/image.$number" "$dir/restored"
	rm "$dir/restored"
done
quietly nbdloop restore "$chain" "$replica"
quietly cmp "$dir/image.3" "$dir/replica.img"
quietly nbdloop restore "$raw" "$dir/restored"
quietly cmp "$dir/image.3" "$dir/restored"
# From a directory in which no lock can be made.
without_lock()
{
	ASAN_OPTIONS=detect_leaks=0 "$1" strace -f -qq -o "$dir/calls" -P "$raw.lock" -e trace=openat \
		-e inject=openat:error=EROFS:when=1 nbdloop restore --force "$raw" "$dir/restored"
}
without_lock quietly
quietly cmp "$dir/image.3" "$dir/restored"
exec {held}>"$raw.lock"
flock "$held"
without_lock must_fail
grep -q 'raw.img: another backup or restore is using it' "$dir/refused.log" || fail "a lock that is there doesn't count"
exec {held}>&-
rm "$raw.lock"
refuses 'restored is there: remove it, or use --force' restore "$chain" "$dir/restored"
mkfifo "$dir/device"
refuses 'device is no file: to restore to a device, serve it by nbdloopd' restore --force "$chain" "$dir/device"
refuses 'is the target of backups \(there is .*state\)' restore --force "$chain" "$raw"
quietly nbdloop restore --force --until=1 "$chain" "$dir/restored"
quietly cmp "$dir/image.1" "$dir/restored"
rm "$dir/restored"
refuses '--until=4: the last backup in .*chain is 3' restore --until=4 "$chain" "$dir/restored"
refuses 'image.0 is no backup: there is no .*image.0.state' restore "$dir/image.0" "$dir/restored"
refuses 'No such file' restore "$dir/nothing" "$dir/restored"

# ---- damaged chains
damage() # REGEX COMMAND ARGUMENT... on a copy of the chain
{
	local wanted=$1
	shift
	rm -rf "$dir/damaged"
	cp -r "$chain" "$dir/damaged"
	"$@"
	refuses "$wanted" restore "$dir/damaged" "$dir/restored"
	[ -z "$(ls -d "$dir/restored"* 2>/dev/null)" ] || fail "a restore that failed leaves a file"
}
damage '000002.delta: it is increment 2, and increment 1 is missing' rm "$dir/damaged/000001.delta"
damage 'is torn or damaged at its byte [0-9]+: it ends there' truncate -s -1 "$dir/damaged/000002.delta"
damage 'is torn or damaged at its byte [0-9]+: its end is that of another file' truncate -s +1 "$dir/damaged/000002.delta"
damage '000001.delta: it is no delta of nbdloop backup' truncate -s 0 "$dir/damaged/000001.delta"
damage 'the data for [0-9]+ bytes at 524288 of the image has a wrong checksum: the file is damaged' \
	eval 'offset=$(grep -obUaP "\x04{64}" "$dir/damaged/000001.delta" | sed -n 1p | cut -d: -f1)
		printf x | dd of="$dir/damaged/000001.delta" bs=1 seek=$((offset + 1000)) conv=notrunc status=none'
# An export would be left with half of it.
refuses '000001.delta: the data for .* has a wrong checksum' restore "$dir/damaged" "$replica"
quietly cmp "$dir/image.3" "$dir/replica.img"
# Which export is wrong is told before the chain is read.
refuses 'nbd\+unix:///\?socket=.*none.sock' restore "$dir/damaged" "nbd+unix:///?socket=$dir/none.sock"
other=$dir/other
serve monday
quietly nbdloop backup --bitmap=monday --format=delta "$uri" "$other"
unserve
damage '000001.delta: it belongs on another backup than the one before it' cp "$other/000000.delta" "$dir/damaged/000000.delta"

# ---- refused increments
serve monday
refuses 'raw.img belongs to the checkpoint "monday", not to "friday": use --bitmap=monday' backup -i --bitmap=friday "$uri" "$raw"
refuses 'new is no backup that an increment could belong to: take a full backup' backup -i "$uri" "$dir/new"
refuses 'new has no backup that an increment could belong to' backup -i --format=delta "$uri" "$dir/new"
refuses 'is a backup of .*source.sock, not of .*export=x' backup -i "$uri&export=x" "$raw"
cp --preserve=timestamps "$raw" "$dir/touched"
cp "$raw.state" "$dir/touched.state"
printf x | dd of="$dir/touched" conv=notrunc status=none
refuses 'touched was changed since its last backup, .*: take a full backup' backup -i "$uri" "$dir/touched"
unserve
quietly qemu-img bitmap --add "$disk" tuesday
cp "$disk" "$dir/saved.qcow2"
serve
refuses 'what has changed since "monday" is unknown, .*: take a full backup' backup -i "$uri" "$raw"
unserve
quietly qemu-img resize "$disk" 33M
serve monday
for target in "$raw" "--format=delta $chain" "--state=$dir/replica.state $replica"; do
	# shellcheck disable=SC2086 # an option and an operand
	refuses 'has grown since the last backup, from 33554432 to 34603008 bytes: take a full backup \(repeat the command without --incremental' backup -i "$uri" $target
done
unserve
cp "$dir/saved.qcow2" "$disk"

# ---- the checkpoint is moved on
change 'write -P 8 1M 64k'
note_image "$dir/image.4"
serve monday tuesday
refuses 'since "friday" is unknown' backup -i --next-bitmap=friday "$uri" "$raw"
quietly nbdloop backup -i --next-bitmap=tuesday "$uri" "$raw"
quietly cmp "$dir/image.4" "$raw"
refuses 'belongs to the checkpoint "tuesday", not to "monday"' backup -i --bitmap=monday "$uri" "$raw"
unserve

# ---- killed before each of its writes, renames and removals
cp --preserve=timestamps "$raw" "$dir/before"
cp "$raw.state" "$dir/before.state"
change 'write -P 9 2M 64k' 'write -z 8M 64k' 'write -P 10 24M 64k'
note_image "$dir/image.5"
serve tuesday
begin_again()
{
	rm -f "$raw"*
	cp --preserve=timestamps "$dir/before" "$raw"
	cp "$dir/before.state" "$raw.state"
}
killed_at() # SYSTEM-CALLS NUMBER [PATH]: whether it was killed there; the calls of each thread are counted by themselves
{
	local status=0 path=()
	[ $# -lt 3 ] || path=(-P "$3")
	begin_again
	# The inner shell says that its child was killed.
	# shellcheck disable=SC2016 # for the inner shell
	ASAN_OPTIONS=detect_leaks=0 sh -c '"$@"; exit $?' sh strace -f -qq -o "$dir/calls" "${path[@]}" -e "trace=$1" \
		-e "inject=$1:signal=KILL:when=$2" nbdloop backup -i "$uri" "$raw" >"$dir/killed.log" 2>&1 || status=$?
	[ "$status" != 0 ] || return 1
	grep -q 'killed by SIGKILL' "$dir/calls" || fail "it wasn't killed: $(cat "$dir/killed.log")"
}
# An increment that was interrupted is not written into another file that was put there.
killed_at pwrite64 1 "$raw" || fail "nothing is written into the raw image"
[ -e "$raw.redo" ] || fail "no kill leaves an increment half written"
cp "$dir/image.0" "$dir/foreign"
mv "$dir/foreign" "$raw"
refuses 'raw.img is another file than the one that the increment .*raw.img.redo was begun on' restore "$raw" "$dir/restored"
quietly cmp "$dir/image.0" "$raw"

kills=0
for calls in pwrite64 "pwrite64 $raw" "fallocate $raw" write fsync /rename /unlink; do
	number=1
	read -r call path <<<"$calls"
	while killed_at "$call" $number ${path:+"$path"}; do
		# As somebody would do who needs the backup now.
		rm -f "$dir/restored"
		quietly nbdloop restore "$raw" "$dir/restored"
		cmp -s "$dir/image.4" "$dir/restored" || cmp -s "$dir/image.5" "$dir/restored" ||
			fail "killed before $calls $number, the backup is neither the old one nor the new one"
		quietly nbdloop backup -i "$uri" "$raw"
		quietly cmp "$dir/image.5" "$raw"
		expect_equal "files after $calls $number" "$(printf '%s\n' "$raw" "$raw.state")" "$(ls -d "$raw"*)"
		number=$((number + 1)) kills=$((kills + 1))
	done
	quietly cmp "$dir/image.5" "$raw"
done
[ "$kills" -gt 12 ] || fail "it was killed only $kills times"

# ---- errors of the disk under the raw image: none is lost, and the next run ends the increment
with_errors() # HOW INJECTION
{
	begin_again
	ASAN_OPTIONS=detect_leaks=0 "$1" strace -f -y -qq -o "$dir/calls" -P "$raw" -e trace=pwrite64,fsync -e "inject=$2" \
		nbdloop backup -i "$uri" "$raw"
}
# In each thread, the first write is with direct I/O.
with_errors quietly pwrite64:error=EIO:when=1
quietly cmp "$dir/image.5" "$raw"
grep -q 'pwrite64.*INJECTED' "$dir/calls" || fail "no write has failed"
grep -v INJECTED "$dir/calls" >"$dir/done"
# shellcheck disable=SC2013 # a word each
for fd in $(sed -n 's/.*pwrite64(\([0-9]*\)<.*/\1/p' "$dir/calls" | sort -u); do
	grep -q "fsync($fd<" "$dir/done" || fail "descriptor $fd was written to, and is not synced: $(cat "$dir/calls")"
done
for injection in pwrite64:error=EIO fsync:error=EIO:when=1 fsync:error=EIO; do
	with_errors must_fail $injection
	grep -q "raw.img: writing .*: Input/output error" "$dir/refused.log" || fail "$injection is not told"
	[ -e "$raw.redo" ] || fail "after $injection, the increment is gone"
	quietly nbdloop backup -i "$uri" "$raw"
	quietly cmp "$dir/image.5" "$raw"
done
unserve
