#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup merges the backups of a directory that --keep, --keep-daily and --keep-weekly do
# not keep.  All others restore byte for byte, also by a program that knows no merges, and wherever
# a merge was killed or a call of it failed.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require strace jq cmp
export TZ=UTC
chain=$dir/chain

at() # DATE: seconds since 1970
{
	date -d "$1" +%s
}

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop $* doesn't say: $wanted"
}

fresh() # the chain as it was made
{
	rm -rf "$chain"
	cp -a "$dir/made" "$chain"
}

numbers() # of the backups in the chain
{
	nbdloop backup list --json "$chain" | jq -r '[.backups[].number] | join(" ")'
}

restores() # [NUMBER...]: all that are listed, or these
{
	local number
	[ $# -gt 0 ] || set -- $(numbers)
	for number; do
		quietly nbdloop restore --force --until="$number" "$chain" "$dir/restored"
		quietly cmp "$dir/image.$number" "$dir/restored"
	done
	quietly "$python" "$lib/delta_files.py" check "$chain" "$dir/image" "$@"
}

# Two weeks: of each, the last is kept, and the newest.
times=(2026-10-05 2026-10-11 2026-10-12 2026-10-14 2026-10-18 "2026-10-19 01:00" "2026-10-19 23:00")
seconds=()
for time in "${times[@]}"; do
	seconds+=("$(at "$time")")
done
"$python" "$lib/delta_files.py" make "$dir/made" "$dir/image" "${seconds[@]}"
fresh
expect_equal "all backups" "0 1 2 3 4 5 6" "$(numbers)"
restores

# ---- rules
kept() # NUMBERS OPTION...
{
	local wanted=$1
	shift
	fresh
	quietly nbdloop backup merge --verify "$@" "$chain"
	expect_equal "kept by $*" "$wanted" "$(numbers)"
	restores
	quietly nbdloop backup merge "$@" "$chain"
	expect_equal "kept again by $*" "$wanted" "$(numbers)"
}
kept "6" --keep=1
kept "4 5 6" --keep=3
kept "0 1 2 3 4 5 6" --keep=7
kept "4 6" --keep-daily=2
kept "1 4 6" --keep-weekly=9
kept "3 4 6" --keep-daily=3 --keep-weekly=2
kept "1 4 5 6" --keep-weekly=3 --keep=2

# ---- merged ones are merged again
fresh
for keep in 6 5 3 2 1; do
	quietly nbdloop backup merge --keep=$keep "$chain"
	expect_equal "the number that is kept" $keep "$(numbers | wc -w)"
	restores
done
fresh
quietly nbdloop backup merge --keep-weekly=3 "$chain"
refuses '--until=3: this backup was merged into backup 4; nbdloop backup list .* shows all' restore --until=3 "$chain" "$dir/new"
refuses '--until=7: the last backup in .*chain is 6' restore --until=7 "$chain" "$dir/new"
refuses '--until=2026-10-05: the first backup in .*chain is of 2026-10-11 00:00:00' restore --until=2026-10-05 "$chain" "$dir/new"
quietly nbdloop restore --until=2026-10-17 "$chain" "$dir/new"
quietly cmp "$dir/image.1" "$dir/new"
expect_equal "bytes of an emptied file" 137 "$(stat -c %s "$chain/000003.delta")"

# ---- killed before each call that writes
killed_at() # SYSTEM-CALL NUMBER: whether it was killed there
{
	local status=0
	# The inner shell says that its child was killed.
	# shellcheck disable=SC2016 # for the inner shell
	ASAN_OPTIONS=detect_leaks=0 sh -c '"$@"; exit $?' sh strace -f -qq -o "$dir/calls" -e "trace=$1" \
		-e "inject=$1:signal=KILL:when=$2" nbdloop backup merge --keep-weekly=3 "$chain" \
		>"$dir/killed.log" 2>&1 || status=$?
	[ "$status" != 0 ] || return 1
	grep -q 'killed by SIGKILL' "$dir/calls" || fail "it wasn't killed: $(cat "$dir/killed.log")"
}

kills=0
for call in pwrite64 fsync /rename /unlink; do
	number=1
	while fresh && killed_at $call $number; do
		kills=$((kills + 1)) listed=" $(numbers) "
		for wanted in 1 4 6; do
			[[ $listed == *" $wanted "* ]] || fail "$call $number: backup $wanted is lost"
		done
		restores
		quietly nbdloop backup merge --keep-weekly=3 "$chain"
		expect_equal "the backups after $call $number" "1 4 6" "$(numbers)"
		restores 1 4 6
		expect_equal "files that are left" "" "$(find "$chain" -name '*.part')"
		# Another program appends to the last one: that must stay what it was.
		cmp -n 100 "$chain/000006.delta" "$dir/made/000006.delta" || fail "the last backup has another header"
		# Each takes seconds where everything is slow.
		number=$((number + (time_factor > 1 ? 5 : 1)))
	done
	[ $number -gt 3 ] || fail "$call has $number calls"
done
[ "$time_factor" -gt 1 ] || [ "$kills" -ge 40 ] || fail "only $kills kills"

# ---- what replaces a file is on the disk before, and its name before the next one
fresh
ASAN_OPTIONS=detect_leaks=0 quietly strace -f -qq -o "$dir/calls" -e trace=fsync,/rename \
	nbdloop backup merge --keep-weekly=3 "$chain"
order=$(sed -n 's/^[0-9]* *\(fsync\|rename\).*/\1/p' "$dir/calls" | cut -c 1 | tr -d '\n')
[[ $order =~ ^f+rf(f+rf)+$ ]] || fail "the order of syncs and renamings is $order"

# ---- a call fails
for inject in pwrite64:error=ENOSPC:when=5 fsync:error=EIO:when=1 fsync:error=EIO:when=2 /rename:error=EROFS:when=2 \
	pread64:error=EIO:when=30; do
	fresh
	ASAN_OPTIONS=detect_leaks=0 must_fail strace -f -qq -o "$dir/calls" -e "trace=${inject%%:*}" \
		-e "inject=$inject" nbdloop backup merge --keep=1 "$chain"
	restores
	expect_equal "files that are left after $inject" "" "$(find "$chain" -name '*.part' -o -name '*.lock')"
	quietly nbdloop backup merge --keep=1 "$chain"
	expect_equal "the backups after $inject" 6 "$(numbers)"
	restores
done

# ---- what is damaged is not merged
fresh
printf x | dd of="$chain/000006.delta" bs=1 seek=$(($(stat -c %s "$chain/000006.delta") - 40)) conv=notrunc 2>/dev/null
refuses 'checksum' backup merge --keep=1 "$chain"
expect_equal "the backups" "0 1 2 3 4 5 6" "$(numbers)"
fresh
truncate -s -1 "$chain/000003.delta"
refuses '000003.delta is torn or damaged' backup merge --keep=1 "$chain"
fresh
quietly nbdloop backup merge --keep=1 "$chain"
rm "$chain/000006.delta"
refuses '000000.delta contains increment 6, and the chain ends with increment 5: later files are missing' restore "$chain" "$dir/other"
# A new backup would get the number of a merged one: restoring would skip it.
refuses '000000.delta contains increment 6' backup --format=delta -i --force "nbd+unix:///?socket=$dir/none" "$chain"

# ---- the data of all is read
verifies() # STATUS STATES: what list --verify says of each backup
{
	local status=0
	nbdloop backup list --verify "$chain" >"$dir/table" 2>"$dir/refused.log" || status=$?
	expect_equal "states" "$2" "$(awk 'NR > 1 { print $NF }' "$dir/table" | xargs)"
	expect_equal "status of list --verify" "$1" "$status"
	status=0
	nbdloop backup list --json --verify "$chain" >"$dir/json" 2>/dev/null || status=$?
	expect_equal "states in JSON" "$2" "$(jq -r '[.backups[].state] | join(" ")' "$dir/json")"
	expect_equal "status of list --json --verify" "$1" "$status"
}

damage() # NUMBER: a byte before its end
{
	local file=$chain/00000$1.delta
	local place=$(($(stat -c %s "$file") - 40))
	"$python" -c 'import sys; f = open(sys.argv[1], "r+b"); n = int(sys.argv[2]); f.seek(n); b = f.read(1)[0] ^ 1; f.seek(n); f.write(bytes([b]))' "$file" $place
}

fresh
verifies 0 "ok ok ok ok ok ok ok"
expect_equal "what is said of good ones" "" "$(cat "$dir/refused.log")"
[ "$(nbdloop backup list "$chain" | awk 'NR == 1 { print $NF }')" = FILE ] || fail "a state without --verify"
damage 3
verifies 1 "ok ok ok damaged unusable unusable unusable"
grep -q '000003.delta.*wrong checksum' "$dir/refused.log" || fail "$(cat "$dir/refused.log")"
grep -q 'chain: backups 3 to 6 cannot be restored: take a full backup into another directory' "$dir/refused.log" ||
	fail "$(cat "$dir/refused.log")"
expect_equal "the problem in JSON" "$(sed -n '1s/^nbdloop: //p' "$dir/refused.log")" "$(jq -r '.backups[3].problem' "$dir/json")"
expect_equal "problems in JSON" 1 "$(jq '[.backups[].problem | select(.)] | length' "$dir/json")"
damage 5
verifies 1 "ok ok ok damaged unusable damaged unusable"
expect_equal "damaged files that are named" 2 "$(grep -c 'wrong checksum' "$dir/refused.log")"
# Those before it can be restored; what was merged into another file is not needed.
restores 0 1 2
fresh
quietly nbdloop backup merge --keep-weekly=3 "$chain"
verifies 0 "ok ok ok"
ASAN_OPTIONS=detect_leaks=0 must_fail strace -f -qq -o "$dir/calls" -e trace=pread64 -e inject=pread64:error=EIO:when=30+ \
	nbdloop backup list --verify "$chain"
grep -q 'delta.*Input/output error' "$dir/refused.log" || fail "$(cat "$dir/refused.log")"

# ---- a restore reads meanwhile
fresh
exec {held}<"$chain"
flock -s "$held"
refuses 'chain: a restore or a verification is reading its backups' backup merge --keep=1 "$chain"
exec {held}<&-
expect_equal "the backups" "0 1 2 3 4 5 6" "$(numbers)"
# An interrupted call is repeated. Another failure does not mean that the file system has no locks.
with_flock=(env ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o "$dir/calls" -P "$chain" -e trace=flock)
quietly "${with_flock[@]}" -e inject=flock:error=EINTR:when=1 nbdloop restore --force "$chain" "$dir/restored"
quietly cmp "$dir/image.6" "$dir/restored"
expect_equal "calls of flock" 2 "$(grep -c 'flock(' "$dir/calls")"
must_fail "${with_flock[@]}" -e inject=flock:error=EIO nbdloop restore --force "$chain" "$dir/restored"
grep -q 'chain: locking it: Input/output error' "$dir/refused.log" || fail "$(cat "$dir/refused.log")"
for error in EOPNOTSUPP ENOSYS ENOLCK; do
	quietly "${with_flock[@]}" -e "inject=flock:error=$error" nbdloop restore --force "$chain" "$dir/restored"
	quietly cmp "$dir/image.6" "$dir/restored"
done
# One that has no lock finds that a file was replaced, wherever it is.
for number in 3 4 5 6; do
	fresh
	rm -f "$dir/late" "$dir/reader.calls"
	ASAN_OPTIONS=detect_leaks=0 spawn reader strace -f -qq -o "$dir/reader.calls" -P "$chain" -P "$chain/000003.delta" \
		-e trace=flock,openat -e inject=flock:error=EOPNOTSUPP -e inject=openat:signal=STOP:when=$number \
		nbdloop restore "$chain" "$dir/late"
	wait_until "the restore stands" grep -qs 'stopped by SIGSTOP' "$dir/reader.calls"
	quietly nbdloop backup merge --keep=1 "$chain"
	kill -CONT "$(awk '{ print $1; exit }' "$dir/reader.calls")"
	end_process reader
	if [ "$end_status" = 0 ]; then
		quietly cmp "$dir/image.6" "$dir/late"
	else
		grep -q 'chain/.* has changed meanwhile: try again' "$dir/reader.log" ||
			fail "the restore does not say what has happened: $(cat "$dir/reader.log")"
	fi
done
[ "$end_status" != 0 ] || fail "the restore has seen no change"

# ---- bad input
refuses 'merge: say what is to be kept' backup merge "$chain"
refuses 'merge takes no option but' backup merge --keep=1 --incremental "$chain"
refuses 'list takes no option but --verify and --json' backup list --keep=1 "$chain"
refuses '--verify is for a directory of deltas' backup list --verify "$dir/image.1"
refuses 'none: No such file or directory' backup list --verify "$dir/none"
refuses 'none: No such file or directory' restore --until=1 "$dir/none" "$dir/new"
mkdir "$dir/empty"
refuses 'empty has no backups' backup list --verify "$dir/empty"
refuses '--keep=0: must be a whole number' backup merge --keep=0 "$chain"
refuses 'image.1 is no directory of backups' backup merge --keep=1 "$dir/image.1"
refuses 'are for --format=delta' backup --keep=1 nbd://localhost "$dir/copy"
