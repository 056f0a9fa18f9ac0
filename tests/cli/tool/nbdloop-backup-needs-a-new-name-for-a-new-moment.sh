#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup --next-bitmap refuses the name of the checkpoint that the target belongs to
# already: where names come again, as those of weekdays do, it is that of a new checkpoint, which
# knows nothing of what has changed before it, and the increment would say that all is well.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io cmp
truncate -s 4M "$dir/disk.img"
copy=$dir/copy.img
start_nbdloopd --control "$dir/control" --export "disk=$dir/disk.img"
disk="nbd+unix:///disk?socket=$sock" now="nbd+unix:///now?socket=$sock"

snapshot() # CHECKPOINT
{
	quietly nbdloop snapshot --checkpoint="$1" "$dir/control" now
}

end_snapshot()
{
	quietly nbdloop snapshot --remove "$dir/control" now
}

change() # NUMBER
{
	quietly qemu-io -f raw -c "write -P $1 $1M 64k" "$disk"
}

change 1
snapshot monday
quietly nbdloop backup --bitmap=monday "$now" "$copy"
end_snapshot
cp "$dir/disk.img" "$dir/before.img"

# ---- a week in which no backup has ended well, and each day's checkpoint went nevertheless
quietly nbdloop checkpoint delete "$dir/control" monday
change 2
snapshot monday
must_fail nbdloop backup -i --next-bitmap=monday "$now" "$copy"
grep -q 'copy.img belongs to the checkpoint "monday" already: .*: take a full backup' "$dir/refused.log" ||
	fail "it doesn't say why: $(cat "$dir/refused.log")"
quietly cmp "$dir/before.img" "$copy"
quietly nbdloop backup --bitmap=monday "$now" "$copy"
end_snapshot

# ---- another name
change 3
snapshot tuesday
quietly nbdloop backup -i --next-bitmap=tuesday "$now" "$copy"
end_snapshot
quietly cmp "$dir/disk.img" "$copy"
stop_server
