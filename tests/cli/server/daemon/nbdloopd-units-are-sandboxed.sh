#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The units of nbdloopd are correct, and expose little: `systemd-analyze security' says at most 1.5
# for each.  The options in them are nbdloopd's.
. "$(dirname "$0")/../../../lib/functions.sh"

require systemd-analyze

units=$top_builddir/server/systemd
source=$top_srcdir/server/systemd
cp "$source/nbdloopd.socket" "$dir/"
# Where it is not installed yet, by a name without blanks.
ln -s "$top_builddir/server/nbdloopd" "$dir/nbdloopd"
for unit in nbdloopd nbdloopd@; do
	sed "s|^\(Exec[A-Z][a-z]*\)=[^ ]*/nbdloopd|\1=$dir/nbdloopd|" "$units/$unit.service" >"$dir/$unit.service"
	grep -q "^ExecStart=$dir/nbdloopd --config=" "$dir/$unit.service" || fail "$unit starts something else"
done

is_safe() # UNIT
{
	systemd-analyze security --no-pager --offline=true --threshold=15 "$1" >"$dir/security.log" 2>&1
}

for unit in nbdloopd nbdloopd@; do
	is_safe "$dir/$unit.service" || fail "$unit.service exposes more than 1.5"
	grep -q 'Overall exposure level for nbdloopd' "$dir/security.log" || fail "$unit.service was not judged"
	# Less would not do.
	grep -v '^CapabilityBoundingSet=' "$dir/$unit.service" >"$dir/open$unit.service"
	! is_safe "$dir/open$unit.service" || fail "a unit with all capabilities is not found"
done

# Warnings don't make it fail.
cp "$dir/nbdloopd@.service" "$dir/nbdloopd@disk.service"
SYSTEMD_UNIT_PATH=$dir: systemd-analyze verify --man=no --recursive-errors=no \
	"$dir/nbdloopd.service" "$dir/nbdloopd@disk.service" "$dir/nbdloopd.socket" >"$dir/verify.log" 2>&1 || fail "a unit is wrong"
! grep -q nbdloopd "$dir/verify.log" || fail "systemd complains about a unit"
sed 's/^WatchdogSec/WatchdogSecs/' "$dir/nbdloopd.service" >"$dir/nbdloopd-wrong.service"
SYSTEMD_UNIT_PATH=$dir: systemd-analyze verify --man=no --recursive-errors=no "$dir/nbdloopd-wrong.service" >"$dir/wrong.log" 2>&1 || true
grep -q WatchdogSecs "$dir/wrong.log" || fail "a wrong unit is not found"

# The example is one.
sed "s|/var/lib/nbdloopd/|$dir/|; s|/run/nbdloopd/|$dir/|" "$source/nbdloopd.conf" >"$dir/nbdloopd.conf"
truncate -s 1M "$dir/disk.img"
server_files
sock=$dir/nbd.sock
spawn server nbdloopd --config="$dir/nbdloopd.conf" --control="$dir/control.sock"
wait_until "the server listens" listens "$sock"
expect_equal "size of the example's export" 1048576 "$(nbdinfo --size "nbd+unix:///disk?socket=$sock")"
stop_server
