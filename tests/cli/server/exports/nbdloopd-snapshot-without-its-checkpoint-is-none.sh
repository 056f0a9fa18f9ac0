#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# If the checkpoint of a snapshot can't be kept, there is no snapshot either: writes copy nothing
# for it, its file is closed, and the server ends in order.
. "$(dirname "$0")/../../../lib/functions.sh"

require_nbdloop
require qemu-io strace
control=$dir/control
truncate -s 64M "$dir/disk.img"
record=$dir/disk.img.changes
failed=0
for call in 1 2 3; do
	rm -f "$record"
	start_nbdloopd --control "$control" "$dir/disk.img"
	quietly nbdloop checkpoint create "$control" monday
	trace -P "$record" -e trace=fdatasync -e inject=fdatasync:error=EIO:when="$call+"
	if ! nbdloop snapshot --checkpoint=tuesday "$control" then >"$dir/refused.log" 2>&1; then
		failed=$((failed + 1))
		control "$control" status exports >"$dir/exports"
		! grep -F '"then"' "$dir/exports" || fail "there is a snapshot"
	fi
	untrace
	quietly qemu-io -f raw -c 'write -P 3 2M 64k' "$uri"
	stop_server
done
[ "$failed" -gt 1 ] || fail "the record failed only in $failed of 3 runs"
