#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup of a control socket makes a snapshot and a checkpoint itself, and removes them when
# they are over: after success, errors and signals.  After SIGKILL anywhere, the next increment is
# right, and removes what is left.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io strace jq cmp
truncate -s 8M "$dir/disk.img" "$dir/replica.img"
truncate -s 1M "$dir/small.img"
server=replica
start_nbdloopd --export "replica=$dir/replica.img" --export "small=$dir/small.img"
replica_pid=$pid
replica="nbd+unix:///replica?socket=$sock" small="nbd+unix:///small?socket=$sock"
server=server
start_nbdloopd --control "$dir/control" --export "disk=$dir/disk.img"
uri="nbd+unix:///disk?socket=$sock"
raw=$dir/raw.img
chain=$dir/chain

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop backup "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop backup $* doesn't say: $wanted"
}

change() # NUMBER
{
	quietly qemu-io -f raw -c "write -P $1 $1M 64k" -c "write -z $(($1 + 1))M 8k" "$uri"
}

left() # what the server has: its exports, and the number of checkpoints of the first
{
	control "$dir/control" status | jq -r '[.exports[].name] + [.exports[0].checkpoints | length] | join(" ")'
}

checkpoint() # PATH of the state
{
	jq -r .bitmap "$1"
}

# ---- each kind of target
change 1
quietly nbdloop backup "$dir/control" "$raw"
quietly nbdloop backup --format=delta --verify --export=disk "$dir/control" "$chain"
quietly nbdloop backup --state="$dir/replica.state" "$dir/control" "$replica"
quietly nbdloop backup "$dir/control" "$replica"
expect_equal "what is left" "disk 3" "$(left)"
first=$(checkpoint "$raw.state")
change 2
nbdloop backup -i --verify --json "$dir/control" "$raw" >"$dir/json" || fail "the increment fails"
expect_equal "bytes that were copied" $((128 << 10)) "$(jq -s 'last | .data + .zeroes' "$dir/json")"
expect_equal "the source" "$(realpath "$dir/control"):disk" "$(jq -rs 'last.source' "$dir/json")"
expect_equal "the checkpoint" "$(checkpoint "$raw.state")" "$(jq -rs 'last.bitmap' "$dir/json")"
[ "$first" != "$(checkpoint "$raw.state")" ] || fail "the increment has the checkpoint of the full backup"
quietly nbdloop backup -i --format=delta "$dir/control" "$chain"
quietly nbdloop backup -i --state="$dir/replica.state" "$dir/control" "$replica"
expect_equal "what is left" "disk 3" "$(left)"
quietly nbdloop restore "$chain" "$dir/restored.img"
for copy in "$raw" "$dir/restored.img" "$dir/replica.img"; do
	quietly cmp "$dir/disk.img" "$copy"
done

# ---- errors leave nothing, and all that the next increment needs
change 3
refuses 'small.* is too small' "$dir/control" "$small"
refuses 'small.* is too small' --state="$dir/small.state" "$dir/control" "$small"
refuses 'is the source itself' "$dir/control" "$uri"
refuses 'disk.img is open in the server of the source' --force "$dir/control" "$dir/disk.img"
refuses 'has no export "none"' --export=none "$dir/control" "$dir/new.img"
refuses 'has no export "none"' "$dir/control:none" "$dir/new.img"
refuses 'named twice: leave out --export=disk' --export=disk "$dir/control:disk" "$dir/new.img"
refuses '--bitmap and --next-bitmap are for a URI' --bitmap=a "$dir/control" "$dir/new.img"
refuses '--export, --expire, .* are for a device or a control socket' --expire=90 "$uri" "$dir/new.img"
refuses 'disk.img is a file: serve the image by nbdloopd' "$dir/disk.img" "$dir/new.img"
refuses '--freeze is for a device' --freeze "$dir/control" "$dir/new.img"
expect_equal "what errors leave" "disk 3" "$(left)"

# ---- the comparison reads the target, whose writes are lost here
ASAN_OPTIONS=detect_leaks=0 must_fail strace -f -qq -o "$dir/calls" -P "$raw" -e trace=pwrite64 \
	-e inject=pwrite64:retval=65536 nbdloop backup -i --verify "$dir/control" "$raw"
grep -q 'raw.img differs from .* at byte 3145728' "$dir/refused.log" || fail "the comparison doesn't see it"
refuses 'raw.img belongs to no checkpoint: take a full backup$' -i "$dir/control" "$raw"
quietly nbdloop backup "$dir/control" "$raw"
expect_equal "what is left" "disk 3" "$(left)"

# ---- an error when the target belongs to the new checkpoint already
change 3
ASAN_OPTIONS=detect_leaks=0 must_fail strace -f -qq -o "$dir/calls" -P "$raw" -e trace=pwrite64 \
	-e inject=pwrite64:error=EIO nbdloop backup -i "$dir/control" "$raw"
change 2
quietly nbdloop backup -i "$dir/control" "$raw"
quietly cmp "$dir/disk.img" "$raw"
expect_equal "what is left" "disk 3" "$(left)"

# ---- a signal, while the target does not answer
kill -STOP "$replica_pid"
spawn stopped nbdloop backup -i --state="$dir/replica.state" "$dir/control" "$replica"
wait_until "the snapshot is there" eval '[ "$(left | wc -w)" = 3 ]'
end_process stopped TERM
kill -CONT "$replica_pid"
expect_equal "exit status" 143 "$end_status"
expect_equal "what the signal leaves" "disk 3" "$(left)"
quietly nbdloop backup -i --state="$dir/replica.state" "$dir/control" "$replica"
quietly cmp "$dir/disk.img" "$dir/replica.img"

# ---- killed before each connection and each renaming
killed_at() # SYSTEM-CALLS NUMBER: whether it was killed there
{
	local status=0
	# The inner shell says that its child was killed.
	# shellcheck disable=SC2016 # for the inner shell
	ASAN_OPTIONS=detect_leaks=0 sh -c '"$@"; exit $?' sh strace -f -qq -o "$dir/calls" -e "trace=$1" \
		-e "inject=$1:signal=KILL:when=$2" nbdloop backup -i --connections=1 "$dir/control" "$raw" \
		>"$dir/killed.log" 2>&1 || status=$?
	[ "$status" != 0 ] || return 1
	grep -q 'killed by SIGKILL' "$dir/calls" || fail "it wasn't killed: $(cat "$dir/killed.log")"
}

# The first connections are to the control socket, before the snapshot.
kills=0 snapshots=0
for calls in connect /rename; do
	number=1
	[ "$calls" != connect ] || number=3
	change $((kills % 5))
	while killed_at "$calls" $number; do
		kills=$((kills + 1)) snapshots=$((snapshots + $(left | grep -c backup- || true)))
		change $((kills % 5))
		quietly nbdloop backup -i --connections=1 "$dir/control" "$raw"
		quietly cmp "$dir/disk.img" "$raw"
		expect_equal "what is left after $calls $number" "disk 3" "$(left)"
		number=$((number + 1))
	done
	quietly cmp "$dir/disk.img" "$raw"
done
[ "$kills" -ge 7 ] && [ "$snapshots" -ge 4 ] || fail "$kills kills have left only $snapshots snapshots"

# ---- as many checkpoints as there can be, which killed backups have left
prefix=$(checkpoint "$raw.state")
for number in $(seq 29); do
	quietly nbdloop checkpoint create "$dir/control" "${prefix%-*}-left$number"
done
refuses 'there are 32 checkpoints' --state="$dir/other.state" "$dir/control" "$replica"
quietly nbdloop backup -i "$dir/control" "$raw"
quietly cmp "$dir/disk.img" "$raw"
expect_equal "what is left" "disk 3" "$(left)"
# The target belongs to its own until a full backup has ended.
ASAN_OPTIONS=detect_leaks=0 must_fail strace -f -qq -o "$dir/calls" -P "$raw.part" -e trace=pwrite64 \
	-e inject=pwrite64:error=EIO nbdloop backup "$dir/control" "$raw"
quietly nbdloop backup -i "$dir/control" "$raw"

# ---- what a killed backup has left ends by itself just before it is removed
quietly nbdloop snapshot "$dir/control" "${prefix%-*}-left"
ASAN_OPTIONS=detect_leaks=0 spawn late strace -f -qq -o "$dir/late.calls" -e trace=connect \
	-e inject=connect:signal=STOP:when=3 nbdloop backup -i "$dir/control" "$raw"
wait_until "it is about to remove it" grep -qs 'stopped by SIGSTOP' "$dir/late.calls"
quietly nbdloop snapshot --remove "$dir/control" "${prefix%-*}-left"
kill -CONT "$(awk '{ print $1; exit }' "$dir/late.calls")"
end_process late
expect_equal "exit status" 0 "$end_status"
expect_equal "what is left" "disk 3" "$(left)"

# ---- without a state, nothing keeps two backups from one target; one leaves the other's snapshot
ASAN_OPTIONS=detect_leaks=0 spawn other strace -f -qq -o "$dir/other.calls" -e trace=connect \
	-e inject=connect:signal=STOP:when=4 nbdloop backup --connections=1 "$dir/control" "$replica"
wait_until "it has its snapshot" grep -qs 'stopped by SIGSTOP' "$dir/other.calls"
quietly nbdloop backup "$dir/control" "$replica"
kill -CONT "$(awk '{ print $1; exit }' "$dir/other.calls")"
end_process other
expect_equal "exit status" 0 "$end_status"
expect_equal "what is left" "disk 3" "$(left)"

# ---- another backup begins as soon as the target is unlocked
ASAN_OPTIONS=detect_leaks=0 spawn first strace -f -qq -o "$dir/first.calls" -P "$raw.lock" -e trace=/unlink \
	-e inject=/unlink:signal=STOP nbdloop backup "$dir/control" "$raw"
wait_until "the target is unlocked" grep -qs 'stopped by SIGSTOP' "$dir/first.calls"
quietly nbdloop backup "$dir/control" "$raw"
kill -CONT "$(awk '{ print $1; exit }' "$dir/first.calls")"
end_process first
expect_equal "exit status" 0 "$end_status"
quietly nbdloop backup -i "$dir/control" "$raw"
quietly cmp "$dir/disk.img" "$raw"

# ---- a checkpoint that is gone
quietly nbdloop checkpoint delete "$dir/control" "$(checkpoint "$raw.state")"
refuses 'what has changed since "backup-.*" is unknown, .*: take a full backup' -i "$dir/control" "$raw"
expect_equal "what is left" "disk 2" "$(left)"
quietly nbdloop backup "$dir/control" "$raw"
expect_equal "what is left" "disk 3" "$(left)"

# ---- a directory has one name
nbdloop backup --json --format=delta "$dir/control" "$dir/new chain//" >"$dir/json" || fail "the backup fails"
new=$(jq -rs last.bitmap "$dir/json")
quietly nbdloop checkpoint create "$dir/control" "${new%-*}-left"
quietly nbdloop backup -i --format=delta "$dir/control" "$dir/new chain"
expect_equal "what is left" "disk 4" "$(left)"
stop_server
