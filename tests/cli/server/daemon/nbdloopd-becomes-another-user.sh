#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With --user, nbdloopd opens its images and sockets as root and then drops all privileges; without
# root, --user is refused with a message that says so.
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "becoming another user"
require setpriv

groups_of_server()
{
	sed -n 's/^Groups:[[:blank:]]*//p' "/proc/$pid/status" | sed 's/ *$//'
}

image=$dir/disk.img
truncate -s 1M "$image"
chmod 600 "$image"

start_nbdloopd --user nobody --sandbox-path=/etc --control "$dir/control" "$image"
reject_log "sandbox: weaker as root"
for field in Uid Gid; do
	ids=$(sed -n "s/^$field:[[:blank:]]*//p" "/proc/$pid/status" | tr '\t' '\n' | sort -u)
	flag=$(tr UG ug <<<"${field:0:1}")
	expect_equal "$field" "$(id -"$flag" nobody)" "$ids"
done
expect_equal "effective capabilities" 0000000000000000 "$(sed -n 's/^CapEff:[[:blank:]]*//p' "/proc/$pid/status")"
expect_equal "groups" "$(id -G nobody)" "$(groups_of_server)"
expect_equal size 1048576 "$(nbdinfo --size "$uri")"
expect_equal pid "$pid" "$(control "$dir/control" status pid)"
control "$dir/control" "add other=/etc/shadow" error | grep 'Permission denied' >/dev/null || fail "it can still read everything"
stop_server

# The user is given by number.
mkdir -m 700 "$dir/closed"
server=closed/server
start_nbdloopd --user 12345:23456 "$image"
expect_equal "user" 12345 "$(stat -c %u "/proc/$pid")"
expect_equal "group" 23456 "$(stat -c %g "/proc/$pid")"
expect_equal "groups" 23456 "$(groups_of_server)"
expect_equal "pid file" "$pid" "$(cat "$dir/$server.pid")"
stop_server
# That user can't write to the directory: the server empties the pid file, which it can't remove.
[ ! -s "$dir/$server.pid" ] || fail "the pid of a server that has ended is left in its file"
server=

# With a given group, no other group is left.
start_nbdloopd --user "$(id -u nobody):daemon" "$image"
expect_equal "user" "$(id -u nobody)" "$(stat -c %u "/proc/$pid")"
expect_equal "groups" "$(id -g daemon)" "$(groups_of_server)"
stop_server

# A user number implies no group: anybody may own a group of the same number.
refuse_nbdloopd 1 -U "$dir/x.sock" --user 12345 "$image"
expect_log '--user=12345: no user has this number, so its group must be given: USER:GROUP'
for user in nosuch 4294967295 4294967296 12345x '' :daemon nosuch:daemon; do
	refuse_nbdloopd 1 -U "$dir/x.sock" --user "$user" "$image"
	expect_log "--user=$user: there is no such user"
done
for user in nobody:nosuch nobody: 12345: 12345:4294967295 12345:1:2; do
	refuse_nbdloopd 1 -U "$dir/x.sock" --user "$user" "$image"
	expect_log "--user=$user: there is no such group"
done

chmod 755 "$dir"
chmod 666 "$image"
as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups --)
program=$top_builddir/server/nbdloopd
"${as_nobody[@]}" test -x "$program" || { cp "$program" "$dir/nbdloopd" && program=$dir/nbdloopd; }
chmod 777 "$dir"
"${as_nobody[@]}" "$program" --user daemon -U "$dir/x.sock" "$image" >"$dir/x.log" 2>&1 && fail "it became another user"
log=$dir/x.log expect_log '--user: cannot become user [0-9]+: Operation not permitted; only root can'
[ ! -e "$dir/x.sock" ] || fail "the socket is still there"

# Who does not, is told what that costs.
start_nbdloopd "$image"
expect_log 'sandbox: weaker as root: .*--user prevents that'
stop_server
