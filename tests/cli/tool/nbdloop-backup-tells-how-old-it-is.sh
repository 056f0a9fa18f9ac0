#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup --metrics writes when the last good backup was and how the last run went, after
# success and failure.  --incremental=auto begins with a full backup.  --keep merges while clients
# write, and an increment follows.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io jq cmp strace
truncate -s 8M "$dir/disk.img" "$dir/replica.img"
start_nbdloopd --control "$dir/control" --export "disk=$dir/disk.img" --export "replica=$dir/replica.img"
uri="nbd+unix:///disk?socket=$sock" replica="nbd+unix:///replica?socket=$sock"
source=$dir/control:disk
chain="$dir/chain \"1\""
metrics=$dir/disk.prom

change() # NUMBER
{
	quietly qemu-io -f raw -c "write -P $1 $(($1 % 7))M 64k" -c "write -z $(($1 % 7))M 8k" "$uri"
}

metric() # NAME TARGET
{
	# Names in labels are escaped.
	local target=${2//\\/\\\\}
	grep -F "nbdloop_backup_$1{source=\"$source\",target=\"${target//\"/\\\"}\"} " "$metrics" | sed 's/.*} //'
}

# ---- a full backup, then increments
began=$(date +%s)
for night in 1 2 3 4; do
	change "$night"
	cp "$dir/disk.img" "$dir/image.$night"
	nbdloop backup --format=delta --incremental=auto --keep=2 --json --metrics="$metrics" "$source" "$chain" >"$dir/json" ||
		fail "the backup of night $night fails"
	expect_equal "whether it is an increment" "$([ $night = 1 ] && echo false || echo true)" "$(jq -s 'last.incremental' "$dir/json")"
	expect_equal "failed" 0 "$(metric last_run_failed "$chain")"
	expect_equal "backups" $((night < 2 ? night : 2)) "$(metric kept "$chain")"
	[ "$(metric last_good_timestamp_seconds "$chain")" -ge "$began" ] || fail "the last good backup is too old"
	expect_equal "its date" "$(nbdloop backup list --json "$chain" | jq '.backups[-1].seconds')" \
		"$(metric last_good_timestamp_seconds "$chain")"
done
expect_equal "bytes that were copied" 57344 "$(metric last_run_data_bytes "$chain")"
expect_equal "its mode" 644 "$(stat -c %a "$metrics")"
expect_equal "numbers" "2 3" "$(nbdloop backup list "$chain" | awk 'NR > 1 { print $1 }' | xargs)"
for night in 3 4; do
	quietly nbdloop restore --force --until=$((night - 1)) "$chain" "$dir/restored"
	quietly cmp "$dir/image.$night" "$dir/restored"
done
quietly nbdloop restore --force --until=today "$chain" "$dir/restored"
quietly cmp "$dir/image.4" "$dir/restored"
must_fail nbdloop restore --force --until=yesterday "$chain" "$dir/restored"
if command -v promtool >/dev/null; then
	promtool check metrics <"$metrics" >"$dir/promtool.log" 2>&1 || fail "promtool: $(cat "$dir/promtool.log")"
fi

# ---- a restore is reading: the backup is complete, and older ones are not merged
exec {held}<"$chain"
flock -s "$held"
change 5
must_fail nbdloop backup --format=delta -i --keep=2 --metrics="$metrics" "$source" "$chain"
grep -q 'the backup is complete, but older ones were not merged: .*chain.*: a restore or a verification is reading' "$dir/refused.log" ||
	fail "a merge that did not happen: $(cat "$dir/refused.log")"
exec {held}<&-
expect_equal "failed" 1 "$(metric last_run_failed "$chain")"
expect_equal "backups" 3 "$(metric kept "$chain")"
expect_equal "the date of the backup" "$(nbdloop backup list --json "$chain" | jq '.backups[-1] | select(.number == 4).seconds')" \
	"$(metric last_good_timestamp_seconds "$chain")"
quietly nbdloop backup --format=delta -i --keep=2 --metrics="$metrics" "$source" "$chain"
expect_equal "failed" 0 "$(metric last_run_failed "$chain")"
expect_equal "numbers" "4 5" "$(nbdloop backup list "$chain" | awk 'NR > 1 { print $1 }' | xargs)"

# ---- failures: the last good one stays
good=$(metric last_good_timestamp_seconds "$chain")
must_fail nbdloop backup --format=delta --metrics="$metrics" "$source" "$chain"
expect_equal "failed" 1 "$(metric last_run_failed "$chain")"
expect_equal "the last good one" "$good" "$(metric last_good_timestamp_seconds "$chain")"
must_fail nbdloop backup --metrics="$metrics" "$dir/no-control:disk" "$dir/none.img"
source=$dir/no-control:disk
expect_equal "the last good one of none" 0 "$(metric last_good_timestamp_seconds "$dir/none.img")"
source=$dir/control:disk
must_fail nbdloop backup --format=delta -i --metrics="$dir/nowhere/disk.prom" "$source" "$chain"
grep -q 'the backup is complete, but its metrics were not written: .*nowhere' "$dir/refused.log" || fail "$(cat "$dir/refused.log")"

# A directory that cannot be read is not one without backups, which a full one would replace.
before=$(cat "$chain"/*.delta | cksum)
for mode in "--incremental=auto" ""; do
	# shellcheck disable=SC2086 # one word, or none
	must_fail strace -f -qq -o "$dir/calls" -P "$chain" -e trace=getdents64 -e inject=getdents64:error=EIO \
		nbdloop backup --format=delta $mode --metrics="$metrics" "$source" "$chain"
	grep -q 'reading its names: Input/output error' "$dir/refused.log" || fail "$(cat "$dir/refused.log")"
	expect_equal "failed" 1 "$(metric last_run_failed "$chain")"
	expect_equal "the backups" "$before" "$(cat "$chain"/*.delta | cksum)"
done
must_fail strace -f -qq -o "$dir/calls" -P "$chain" -e trace=getdents64 -e inject=getdents64:error=EIO \
	nbdloop backup list "$chain"

must_fail nbdloop backup "$dir/control" "$dir/none.img"
grep -q 'control has several exports: name one, as in .*control:EXPORT: "disk", "replica"$' "$dir/refused.log" ||
	fail "the exports are not listed: $(cat "$dir/refused.log")"

# ---- other targets
for round in 1 2; do
	change 5
	quietly nbdloop backup --incremental=auto --metrics="$metrics" "$source" "$dir/raw.img"
	[ "$(metric last_good_timestamp_seconds "$dir/raw.img")" -ge "$began" ] || fail "round $round: no date of a file"
	quietly nbdloop backup --incremental=auto --state="$dir/replica.state" --metrics="$metrics" "$source" "$replica"
	[ "$(metric last_good_timestamp_seconds "$replica")" -ge "$began" ] || fail "round $round: no date of an export"
	quietly cmp "$dir/disk.img" "$dir/raw.img"
	quietly cmp "$dir/disk.img" "$dir/replica.img"
done
# One that somebody has changed is no good backup.
cp --preserve=timestamps "$dir/raw.img" "$dir/kept.img"
printf x | dd of="$dir/raw.img" bs=1 conv=notrunc status=none
must_fail nbdloop backup -i --metrics="$metrics" "$source" "$dir/raw.img"
expect_equal "the last good one of a changed file" 0 "$(metric last_good_timestamp_seconds "$dir/raw.img")"
cp --preserve=timestamps "$dir/kept.img" "$dir/raw.img"
nbdloop backup list --json "$dir/raw.img" | jq -e '.backups[0].number == null and (.backups[0].source | endswith(":disk"))' >/dev/null ||
	fail "a raw backup is not listed"
must_fail nbdloop backup list "$dir/disk.img"
grep -q 'disk.img is no backup: there is no .*disk.img.state' "$dir/refused.log" || fail "an image is listed as a backup"
must_fail nbdloop backup --metrics="$metrics" "$source" "$replica"
grep -q -- '--metrics needs --state=FILE' "$dir/refused.log" || fail "a URI without a state has metrics"
must_fail nbdloop backup --incremental=never "$source" "$dir/raw.img"
stop_server
