#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup copies an export with its data and its holes, into a file and into another export.
# A lost connection costs nothing but time.  A backup that fails or is killed leaves the last good
# one as it was, and what is no backup is not overwritten.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdkit mke2fs jq cmp script flock
image=$dir/disk.img
copy=$dir/copy.img
make_ext4_image "$image" 48M
used=$(blocks_used "$image")

refuses() # REGEX ARGUMENT...
{
	local wanted=$1
	shift
	must_fail nbdloop backup "$@"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/refused.log" || fail "nbdloop backup $* doesn't say: $wanted"
}

# What nbdkit serves, one request after the other; starts with the next socket.
slow_nbdkit() # NAME NBDKIT-ARGUMENT...
{
	local name=$1
	shift
	rm -f "$sock"
	spawn "$name" nbdkit -f -U "$sock" -t 1 "$@"
	wait_until "nbdkit listens" listens "$sock"
}

blocks_or_none() # FILE
{
	stat -c %b "$1" 2>/dev/null || echo 0
}

has_begun() # FILE
{
	[ "$(blocks_or_none "$1")" -gt 4096 ]
}

expect_nothing_beside() # FILE
{
	expect_equal "what is beside $1" "$(printf '%s\n' "$1" "$1.state")" "$(ls -d "$1"*)"
}

# ---- of nbdloopd, several connections
start_nbdloopd -r "$image"
nbdloop backup --verify --json "$uri" "$copy" >"$dir/json" || fail "the backup fails"
quietly cmp "$image" "$copy"
seen=$(blocks_used "$copy")
[ "$used" -ge 98304 ] || [ "$seen" -le $((used + used / 50 + 64)) ] || fail "the copy uses $seen blocks, its source only $used"
expect_equal "data and zeroes" "$(stat -c %s "$image")" "$(tail -n 1 "$dir/json" | jq '.data + .zeroes')"
expect_equal "the last line" "end $uri $copy false" "$(tail -n 1 "$dir/json" | jq -r '"\(.event) \(.source) \(.target) \(.incremental)"')"
jq -es 'map(select(.event == "progress" and .step == "verify" and .bytes == .total)) | length > 0' "$dir/json" >"$dir/jq.log" ||
	fail "no line tells the end of the comparison"
expect_nothing_beside "$copy"
nbdloop backup "$uri" "$copy" >"$dir/silent" 2>&1 || fail "the second backup fails"
[ ! -s "$dir/silent" ] || fail "a backup without a terminal says something"
script -qec "nbdloop backup '$uri' '$copy'" /dev/null </dev/null >"$dir/bar" || fail "the backup on a terminal fails"
grep -qE '^.*copy +\[#{30}\] 100 %  [0-9.]+ MB/s  [-0-9:]+ left' "$dir/bar" || fail "there is no bar on a terminal: $(cat "$dir/bar")"

# ---- what is refused
echo precious >"$dir/precious"
refuses 'precious is there, and is no backup .*remove it, name another file, or use --force' "$uri" "$dir/precious"
expect_equal "the file that is no backup" precious "$(cat "$dir/precious")"
refuses 'disk.img is a file: serve the image by nbdloopd' "$image" "$dir/new"
refuses 'disk.img is open in the server of the source \(process [0-9]+\): it is the image itself' --force "$uri" "$image"
refuses 'copy.img is a backup of nbd\+unix:.*, not of .*other.*: name another file, or, if it is the same disk' \
	"nbd+unix:///other?socket=$sock" "$copy"
# libnbd would copy a disk in clear, or to a server that nobody meant.
refuses 'nbd://alice@localhost/: a user is for TLS' 'nbd://alice@localhost/' "$dir/new"
refuses 'unknown parameter tls-verify:' "nbds://localhost/?tls-verify=on" "$dir/new"
refuses 'tls-psk-file is for TLS, and nbd\+unix:// is not encrypted: use nbds\+unix://' \
	"$uri" "nbd+unix:///?socket=$sock&tls-psk-file=$dir/keys.psk"
refuses 'is the source itself' "nbd+unix:///?socket=$sock" "nbd+unix://?socket=$sock"
refuses "$dir is a directory: name a file in it, or use --format=delta" "$uri" "$dir"
refuses 'what has changed since "monday" is unknown, .*no context qemu:dirty-bitmap:monday: take a full backup \(with --bitmap, begin the checkpoint before it\)' \
	--bitmap=monday "$uri" "$dir/new"
refuses 'copy.img belongs to no checkpoint: take a full backup with --bitmap=NAME' -i "$uri" "$copy"
refuses '--next-bitmap is for --incremental' --next-bitmap=b "$uri" "$dir/new"
refuses '--format=delta needs a directory' --format=delta "$uri" "nbd+unix:///b?socket=$dir/b.sock"
refuses "$dir/nowhere: No such file or directory" "$uri" "$dir/nowhere/copy.img"
[ ! -e "$dir/new" ] || fail "a refused backup leaves a file"

# ---- two at once
exec {held}>"$copy.lock"
flock "$held"
refuses 'copy.img: another backup or restore is using it' "$uri" "$copy"
exec {held}>&-
stop_server

# ---- the server is lost in the middle, and comes back
head -c 24M /dev/urandom >"$dir/random.img"
other=$dir/other.img
slow_nbdkit lost --filter=delay file "$dir/random.img" rdelay=300ms
spawn backup nbdloop backup --timeout=60 "$uri" "$other"
wait_until "some of it is copied" has_begun "$other.part"
end_process lost KILL
[ ! -e "$other" ] || fail "the backup is there before it is whole"
slow_nbdkit back file "$dir/random.img"
end_process backup
expect_equal "status of the backup whose server was lost" 0 "$end_status"
quietly cmp "$dir/random.img" "$other"
end_process back KILL

# ---- it doesn't come back: the last good backup stays
cp "$other" "$dir/good"
refuses 'No such file|Connection refused' --timeout=2 "nbd+unix:///?socket=$dir/nobody.sock" "$dir/new"
slow_nbdkit gone --filter=delay pattern 24M rdelay=600
refuses 'no answer for 2 seconds' --timeout=2 --force "$uri" "$other"
quietly cmp "$dir/good" "$other"
end_process gone KILL
slow_nbdkit broken --filter=error pattern 24M error-pread=EIO error-pread-rate=100%
refuses 'reading [0-9]+ bytes at [0-9]+: Input/output error' "$uri" "$other"
quietly cmp "$dir/good" "$other"
expect_nothing_beside "$other"
end_process broken KILL
# shellcheck disable=SC2016 # for nbdkit's shell
slow_nbdkit restless eval get_size='echo 1M' pread='head -c $3 /dev/urandom'
refuses 'other.img differs from .* at byte [0-9]+: unless clients write to the source' --verify --force "$uri" "$other"
quietly cmp "$dir/good" "$other"
end_process restless KILL

# ---- it is killed: the last good one stays, and the next one is right
slow_nbdkit slow --filter=delay pattern 24M rdelay=300ms
spawn killed nbdloop backup "$uri" "$other"
wait_until "some of it is copied" has_begun "$other.part"
end_process killed KILL
quietly cmp "$dir/good" "$other"
end_process slow KILL
slow_nbdkit pattern pattern 24M
quietly nbdloop backup --verify "$uri" "$other"
expect_nothing_beside "$other"
quietly nbdcopy "$uri" "$dir/wanted"
quietly cmp "$dir/wanted" "$other"

# ---- into another export, whose server is lost in the middle: what it had not flushed is written
# again
head -c 24M /dev/zero | tr '\0' '\252' >"$dir/replica.img"
source=$uri
target_uri="nbd+unix:///?socket=$dir/target.sock"
start_target()
{
	rm -f "$dir/target.sock"
	spawn "$1" nbdkit -f -U "$dir/target.sock" -t 1 "${@:2}"
	wait_until "the target listens" listens "$dir/target.sock"
}
changed_blocks()
{
	! cmp -s -n 1048576 "$dir/wanted" "$dir/replica.img" 2>/dev/null || return 0
	return 1
}
start_target first --filter=delay file "$dir/replica.img" wdelay=300ms
spawn replication nbdloop backup "$source" "$target_uri"
wait_until "some of it is copied" changed_blocks
end_process first KILL
start_target second file "$dir/replica.img"
end_process replication
expect_equal "status of the replication" 0 "$end_status"
quietly cmp "$dir/wanted" "$dir/replica.img"
end_process second KILL

# A flush may take most of --timeout, and is not begun anew after half of it.
# shellcheck disable=SC2016 # for the shell of nbdkit
start_target slow eval get_size='echo 24M' pwrite='cat >/dev/null' flush="sleep $((26 * time_factor))e-1" \
	pread='head -c $3 /dev/zero'
quietly nbdloop backup --timeout=$((4 * time_factor)) "$source" "$target_uri"
end_process slow KILL

# Zeroes replace what was there, also where the server can't make them.
truncate -s 24M "$dir/empty.img"
end_process pattern KILL
slow_nbdkit empty file "$dir/empty.img"
start_target plain --filter=nozero file "$dir/replica.img"
quietly nbdloop backup --verify "$uri" "$target_uri"
quietly cmp "$dir/empty.img" "$dir/replica.img"
truncate -s 25M "$dir/empty.img"
end_process empty KILL
slow_nbdkit larger file "$dir/empty.img"
refuses 'is too small: it has 25165824 bytes, and 26214400 are needed' "$uri" "$target_uri"
end_process plain KILL
start_target readonly -r file "$dir/replica.img"
refuses 'target.sock is read-only' "$uri" "$target_uri"

# ---- the target's disk is full
if [ "$(id -u)" = 0 ]; then
	end_process larger KILL
	slow_nbdkit full file "$dir/random.img"
	mount_at "$dir/small" -t tmpfs -o size=1M tmpfs
	refuses 'disk.img: writing .*No space left on device' "$uri" "$dir/small/disk.img"
	expect_equal "files on the full disk" "" "$(ls -A "$dir/small")"
fi

