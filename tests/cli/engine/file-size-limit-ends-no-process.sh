#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A write beyond the process's limit of file sizes (RLIMIT_FSIZE) fails: it ends neither nbdloopd,
# whose clients get the error, and whose log may be a file, nor "nbdloop backup", which says why it
# has failed. The kernel's signal (SIGXFSZ) would end both.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io prlimit
truncate -s 4M "$dir/disk.img"
start_nbdloopd --control "$dir/control" "$dir/disk.img"
quietly qemu-io -f raw -c "write -P 1 2M 64k" "$uri"
status=0
prlimit --fsize=$((1 << 20)) nbdloop backup "$dir/control" "$dir/copy.img" >"$dir/backup.log" 2>&1 || status=$?
expect_equal "status of the backup" 1 "$status"
grep -q "copy.img.*File too large" "$dir/backup.log" || fail "nbdloop doesn't say why: $(cat "$dir/backup.log")"

prlimit --fsize=$((1 << 20)) --pid "${process_pids[server]}"
must_fail qemu-io -f raw -c "write -P 2 2M 64k" "$uri"
quietly qemu-io -f raw -c "write -P 3 64k 64k" -c "read -P 3 64k 64k" -c "read -P 1 2M 64k" "$uri"
expect_log 'disk\.img: .*write .*at offset 2097152.* failed: '
must_fail nbdloop snapshot "$dir/control" then
grep -q "can't have the 4194304 bytes of the image: File too large" "$dir/refused.log" ||
	fail "nbdloop doesn't say why: $(cat "$dir/refused.log")"
# What it has to say of its configuration (there is none) finds no room.
prlimit --fsize=1 --pid "${process_pids[server]}"
kill -HUP "${process_pids[server]}"
control "$dir/control" status >"$dir/status"
stop_server
