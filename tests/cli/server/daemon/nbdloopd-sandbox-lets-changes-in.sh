#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Inside the sandbox, exports are added from the directories of the configuration, by the control
# socket and at SIGHUP, and snapshots are made; elsewhere, the error tells the reason and the way
# out. The log and the status tell what is in force, and sandbox=on starts only with all of it.
. "$(dirname "$0")/../../../lib/functions.sh"

require_root "capabilities"
require nbdinfo
mkdir "$dir/here" "$dir/there" "$dir/anywhere"
for image in here/a here/b there/c anywhere/d; do
	truncate -s 1M "$dir/$image.img"
done
ln -s ../here/b.img "$dir/there/link.img"
config=$dir/nbdloopd.conf
exports() # LINE...
{
	printf '[server]\nsandbox=%s\nsandbox-path=%s\n' "${sandbox:-auto}" "$dir/anywhere"
	printf '[export %s]\nfile=%s\n' "$@"
}

refuse_nbdloopd 1 -U "$dir/x.sock" --sandbox-path="$dir/nowhere" "$dir/here/a.img"
expect_log "^nbdloopd: error: sandbox-path=$dir/nowhere: No such file or directory"

exports a "$dir/here/a.img" >"$config"
start_nbdloopd --config "$config" --control "$dir/control"
expect_log '^nbdloopd: sandbox: no new privileges, '
inside=$(control "$dir/control" status sandbox)
[[ $inside == *"landlock "[1-9]* ]] || skip "no Landlock here: $inside"

for thread in /proc/"$pid"/task/*; do
	expect_equal "no new privileges of $thread" 1 "$(sed -n 's/^NoNewPrivs:\t//p' "$thread/status")"
	# CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_IPC_LOCK
	for set in CapPrm CapEff CapBnd; do
		kept=$(sed -n "s/^$set:\t//p" "$thread/status")
		expect_equal "other capabilities of $thread ($set)" 0 "$((0x$kept & ~0x4006))"
	done
done

way_out='the sandbox lets nbdloopd open only .*: start the server with sandbox-path=DIR'
control "$dir/control" "add b=$dir/here/b.img" name >"$dir/said"
control "$dir/control" "add d=$dir/anywhere/d.img" name >"$dir/said"
control "$dir/control" "add link=$dir/there/link.img,lock=off" >"$dir/said" || true
! grep '^{"error"' "$dir/said" || fail "a link into a directory of the configuration"
control "$dir/control" "add c=$dir/there/c.img" >"$dir/said" || true
grep -E "$way_out" "$dir/said" >"$dir/found" || fail "an image elsewhere: $(cat "$dir/said")"
control "$dir/control" "snapshot now scratch=$dir/there export=a" >"$dir/said" || true
grep -E "$way_out" "$dir/said" >"$dir/found" || fail "a snapshot elsewhere: $(cat "$dir/said")"
control "$dir/control" "snapshot now export=a" >"$dir/said"
! grep '^{"error"' "$dir/said" || fail "a snapshot beside its image"

exports a "$dir/here/a.img" e "$dir/here/e.img" f "$dir/there/c.img" >"$config.new"
truncate -s 1M "$dir/here/e.img"
mv "$config.new" "$config"
kill -HUP "$pid"
wait_until "the configuration is read again" grep -q 'configuration was read again' "$log"
nbdinfo --size "nbd+unix:///e?socket=$sock" >"$dir/said" || fail "SIGHUP adds no image beside others"
expect_log "there/c.img: .*$way_out"
stop_server

exports a "$dir/here/a.img" >"$config"
start_nbdloopd --sandbox=off --config "$config" --control "$dir/control"
expect_equal "sandbox=off" off "$(control "$dir/control" status sandbox)"
control "$dir/control" "add c=$dir/there/c.img" name >"$dir/said"
stop_server

# A directory of the system has too much else: an image there is served, and nothing beside it.
apart=/var/lib/nbdloopd-test.$$
on_exit rm -f "$apart".{a,b,a.changes}
truncate -s 1M "$apart.a" "$apart.b"
start_nbdloopd --control "$dir/control" "$apart.a"
control "$dir/control" "add b=$apart.b" >"$dir/said" || true
grep -E "$way_out" "$dir/said" >"$dir/found" || fail "another image in /var/lib: $(cat "$dir/said")"
control "$dir/control" "checkpoint create monday" >"$dir/said" || true
grep -F "$apart.a.changes: Permission denied; the sandbox lets nbdloopd open only what its configuration named at the start: sandbox-path=DIR allows more" \
	"$dir/said" >"$dir/found" || fail "a record in /var/lib: $(cat "$dir/said")"
nbdinfo --size "nbd+unix:///?socket=$sock" >"$dir/said" || fail "the image in /var/lib is not served"
# The error's way out is one.
control "$dir/control" "snapshot now" >"$dir/said" || true
grep -F "no file can be made in /var/lib: Permission denied; scratch=DIR names another directory" "$dir/said" >"$dir/found" ||
	fail "a snapshot in /var/lib: $(cat "$dir/said")"
control "$dir/control" "snapshot now scratch=/var/tmp" >"$dir/said" || true
! grep '^{"error"' "$dir/said" || fail "a snapshot of an image in /var/lib: $(cat "$dir/said")"
stop_server

# A record that is there already is read again with its image.
start_nbdloopd --sandbox=off --control "$dir/control" --export=a="$apart.a"
control "$dir/control" "checkpoint create monday" >"$dir/said"
stop_server
start_nbdloopd --control "$dir/control" --export=a="$apart.a"
control "$dir/control" "remove export=a" >"$dir/said"
control "$dir/control" "add a=$apart.a" >"$dir/said"
reject_log "changes since"
stop_server

# In /run itself, there is too much else that could be removed.
on_exit rm -f "/run/nbdloopd-test.$$"
start_nbdloopd -U "/run/nbdloopd-test.$$" "$dir/here/a.img"
stop_server
expect_log "warning: /run/nbdloopd-test.$$: cannot be removed: Permission denied"
[ ! -e "$sock" ] || fail "a socket stays in a directory of its own"

# Only the driver knows that a loop device is made of an image whose name is gone.
truncate -s 1M "$dir/here/g.img"
attach_loop "$dir/here/g.img"
ln "$dir/here/g.img" "$dir/here/h.img"
rm "$dir/here/g.img"
start_nbdloopd --config "$config" --control "$dir/control"
control "$dir/control" "add h=$dir/here/h.img" >"$dir/said" || true
grep -F "$loop_device is made of it" "$dir/said" >"$dir/found" || fail "an image of a loop device is served: $(cat "$dir/said")"
stop_server
