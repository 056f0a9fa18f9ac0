#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/backup measures writes beside nothing, a checkpoint and a snapshot, copies, and increments;
# it fails by itself if its first writes have not touched each granule, or if a backup is wrong.
. "$(dirname "$0")/../../lib/functions.sh"

bench=$(cd "$lib/../../bench" && pwd)/backup
require fio nbdcopy qemu-img python3
require_nbdloop
export NBDLOOPD
NBDLOOPD=$(command -v nbdloopd)
status=0
(cd "$top_builddir" && "$bench" --runs 1 --seconds 0.2 --image-size 16 --increments 1 --sparse-size 1 \
	--sparse-data 8 --changed 4 --directory "$dir") \
	>"$dir/table.log" 2>"$dir/bench.log" || status=$?
! grep -q "file system clones files" "$dir/bench.log" || skip "this file system clones files"
[ "$status" -eq 0 ] || fail "the bench failed"
expect_equal "rows of writes" 6 "$(grep -cE '^\| (first touch|steady) \| (nothing|a checkpoint|a snapshot that copies) \| [1-9]' "$dir/table.log")"
expect_equal "rows of the disk" 2 "$(grep -cE '^\| first touch \| \(the disk, no server\) .* \| [1-9]' "$dir/table.log")"
expect_equal "rows of copies" 3 "$(grep -cE '^\| the (export|snapshot, .* written) \| [1-9]' "$dir/table.log")"
expect_equal "rows of whole copies" 2 "$(grep -cE '^\| (nbdcopy|qemu-img) .*, of all \| [0-9]' "$dir/table.log")"
# What has changed is read, and no more of it than that.
expect_equal "rows of increments" 3 "$(grep -cE '^\| (only reading|nbdloop backup --incremental).*\| 4\.[01][0-9] \|$' "$dir/table.log")"
