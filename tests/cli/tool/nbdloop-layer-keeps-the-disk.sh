#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop layer flatten, rebase and commit keep every byte of the disk, wherever they are killed or
# a call of theirs fails: run again, they end well.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io qemu-img strace cmp
here=$dir/here made=$dir/made
mkdir "$made"
RANDOM=${SEED:-$$}
echo "SEED=$RANDOM" >"$dir/seed.log"

# ---- a chain with bytes of each file: base.raw, one.layer, two.layer

base_size=$((3 << 20))
size=$((3400 << 10))

# Some writes of each kind, anywhere.
scribble() # LAYER
{
	local commands=() i offset length
	start_nbdloopd "$1"
	for ((i = 0; i < 40; i++)); do
		length=$(((RANDOM % 24 + 1) * 512 * (RANDOM % 4 ? 1 : 12)))
		offset=$((RANDOM * 32768 + RANDOM))
		offset=$((offset % ((size - length) / 512) * 512))
		case $((RANDOM % 5)) in
		0) commands+=(-c "write -z $offset $length") ;;
		1) commands+=(-c "discard $offset $length") ;;
		*) commands+=(-c "write -P $((RANDOM % 255 + 1)) $offset $length") ;;
		esac
	done
	quietly qemu-io -f raw "${commands[@]}" "$uri"
	# A layer must serve as it is left, too.
	if [ $((RANDOM % 2)) = 0 ]; then stop_server; else kill_server; fi
}

copy_disk() # LAYER FILE
{
	start_nbdloopd "$1"
	quietly qemu-img convert -f raw -O raw "$uri" "$2"
	stop_server
}

make_chain()
{
	rm -rf "$made"
	mkdir "$made"
	truncate -s "$base_size" "$made/base.raw"
	head -c 1M /dev/urandom | dd of="$made/base.raw" conv=notrunc status=none
	head -c 300k /dev/urandom | dd of="$made/base.raw" bs=1k seek=2500 conv=notrunc status=none
	quietly nbdloop clone --size="$size" "$@" "$made/base.raw" "$made/one.layer"
	scribble "$made/one.layer"
	cp -a --sparse=always "$made/one.layer" "$made/single.layer"
	copy_disk "$made/single.layer" "$dir/single.raw"
	rm "$made/single.layer"
	cp -a --sparse=always "$made/one.layer" "$dir/single.layer"
	quietly nbdloop clone --seal "$made/one.layer"
	quietly nbdloop clone "$made/one.layer" "$made/two.layer"
	scribble "$made/two.layer"
	cp -a --sparse=always "$made" "$dir/whole"
	copy_disk "$dir/whole/two.layer" "$dir/two.raw"
	rm -r "$dir/whole"
	# Others: the same bytes with another time, a larger disk, and another one.
	cp --sparse=always "$made/base.raw" "$made/copy.raw"
	touch -d 2020-01-01 "$made/copy.raw"
	cp --sparse=always "$made/base.raw" "$made/larger.raw"
	truncate -s +1M "$made/larger.raw"
	head -c 2M /dev/urandom >"$made/other.raw"
}

fresh()
{
	rm -rf "$here"
	cp -a --sparse=always "$made" "$here"
}

fresh_single()
{
	fresh
	rm "$here/one.layer" "$here/two.layer"
	cp -a --sparse=always "$dir/single.layer" "$here/single.layer"
}

expect_disk() # LAYER FILE
{
	copy_disk "$1" "$dir/seen.raw"
	quietly cmp "$2" "$dir/seen.raw"
}

expect_status() # STATUS COMMAND...
{
	local wanted=$1 status=0
	shift
	"$@" >"$dir/status.log" 2>&1 || status=$?
	expect_equal "status of $*: $(cat "$dir/status.log")" "$wanted" "$status"
}

# ---- each of them

flattens()
{
	quietly nbdloop layer flatten "$here/two.layer"
	rm "$here/base.raw" "$here/one.layer"
	expect_disk "$here/two.layer" "$dir/two.raw"
	expect_status 0 nbdloop layer check "$here/two.layer"
}

rebases() # BASE
{
	quietly nbdloop layer rebase --base="$here/$1" "$here/two.layer"
	[ "$1" = one.layer ] || rm "$here/one.layer"
	expect_disk "$here/two.layer" "$dir/two.raw"
	expect_status 0 nbdloop layer check "$here/two.layer"
}

commits()
{
	quietly nbdloop layer commit "$here/single.layer"
	quietly cmp "$here/base.raw" "$dir/single.raw"
	expect_equal "bytes that are left" 0 "$(nbdloop layer info --json "$here/single.layer" | jq '.chain[0].held')"
	expect_disk "$here/single.layer" "$dir/single.raw"
	expect_status 0 nbdloop layer check "$here/single.layer"
}

# ---- killed at each call that changes a file

killed_at() # SYSTEM-CALL NUMBER COMMAND...: returns whether it was killed there
{
	local call=$1 number=$2 status=0
	shift 2
	# The inner shell says that its child was killed.
	# shellcheck disable=SC2016 # for the inner shell
	ASAN_OPTIONS=detect_leaks=0 sh -c '"$@"; exit $?' sh strace -f -qq -o "$dir/calls" -e "trace=$call" \
		-e "inject=$call:signal=KILL:when=$number" "$@" >"$dir/killed.log" 2>&1 || status=$?
	[ "$status" != 0 ] || return 1
	grep -q 'killed by SIGKILL' "$dir/calls" || fail "it wasn't killed: $(cat "$dir/killed.log")"
}

# Every call at the beginning, and then some.
next_number()
{
	number=$((number + (number > 3 ? number / 2 + RANDOM % number : 1)))
}

kills() # LAYER DISK FRESH AGAIN COMMAND...
{
	local layer=$here/$1 disk=$2 fresh=$3 again=$4 call number
	shift 4
	for call in pwrite64 fdatasync fsync fallocate ftruncate; do
		number=1
		while $fresh && killed_at $call $number "$@"; do
			count=$((count + 1))
			# It may go on in a server, except in the middle of a commit.
			if [ "$again" != commits ] && [ $((RANDOM % 3)) = 0 ]; then
				expect_disk "$layer" "$disk"
			fi
			$again
			next_number
		done
	done
}

fails_at() # ERRNO SYSTEM-CALL NUMBER COMMAND...: returns whether it has failed there
{
	local err=$1 call=$2 number=$3
	shift 3
	! ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o "$dir/calls" -e "trace=$call" -e "inject=$call:error=$err:when=$number" \
		"$@" >"$dir/failed.log" 2>&1
}

fails() # FRESH AGAIN COMMAND...
{
	local fresh=$1 again=$2 call number
	shift 2
	for call in pwrite64 fdatasync fsync; do
		number=1
		while $fresh && fails_at "$([ $call = pwrite64 ] && echo ENOSPC || echo EIO)" $call $number "$@"; do
			count=$((count + 1))
			grep -q '^nbdloop: .' "$dir/failed.log" || fail "a failure without a word"
			$again
			next_number
		done
	done
}

count=0
for granule in 65536 4096; do
	make_chain --granule=$granule
	fresh && flattens
	for base in one.layer base.raw copy.raw larger.raw other.raw; do
		fresh && rebases $base
	done
	fresh_single && commits
	rebase_on_other() { rebases other.raw; }
	[ $granule = 4096 ] || continue
	kills two.layer "$dir/two.raw" fresh flattens nbdloop layer flatten "$here/two.layer"
	kills two.layer "$dir/two.raw" fresh rebase_on_other nbdloop layer rebase --base="$here/other.raw" "$here/two.layer"
	kills single.layer "$dir/single.raw" fresh_single commits nbdloop layer commit "$here/single.layer"
	fails fresh flattens nbdloop layer flatten "$here/two.layer"
	fails fresh_single commits nbdloop layer commit "$here/single.layer"
done
[ "$count" -gt 40 ] || fail "it was killed, or failed, only $count times"
