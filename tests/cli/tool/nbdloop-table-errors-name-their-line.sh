#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop start and the generator for systemd report each error in /etc/nbdloop.tab with its file
# and line, and still use every other line.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
use_recorded_system
table=$NBDLOOP_SYSROOT/etc/nbdloop.tab
image=$dir/disk.img
truncate -s 1M "$image"
mkdir -p "$table.d" "$dir/units"
cat >"$table" <<EOT
# a comment
nbd40 $image offset=1k
nbd41 $image ofset=1k
nbd42 disk.img
nbd44 nbds://alice@localhost/ tls-psk=keys.psk
nbd45 nbd://a:10809,[::1]:10810/x
nbd46 nbd://a:10809,[::1]:10810/x fenced,noauto
EOT
echo "nbd40 $image" >"$table.d/again.conf"
echo "nbd43 $dir/absent.img noauto" >"$table.d/more.conf"
wrong="$table:3: there is no option \"ofset\"; nbdloop.tab(5) lists the options
$table:4: disk.img is neither an absolute path nor an NBD URI, nor an image in Ceph (rbd:POOL/IMAGE) or on a web server (https://HOST/PATH)
$table:5: tls-psk=keys.psk must be an absolute path
$table:6: nbd://a:10809,[::1]:10810/x: with several servers, a write that one of them has not answered could be carried \
out there after later ones of the next server.  If a lost server is fenced before another one writes, say so with --fenced \
(nbdloop-cluster(7)); or attach it --read-only
$table.d/again.conf:1: /dev/nbd40 already has a line: $table:2"

fails() # COMMAND [ARGUMENT...]
{
	local status=0
	"$@" >"$dir/said.out" 2>"$dir/said.log" || status=$?
	expect_equal "status of $*" 1 "$status"
	[ ! -s "$dir/said.out" ] || fail "$* prints something, though it fails"
}

# ---- a single line, and all lines
fails nbdloop start nbd41
expect_equal "errors about nbd41" "$wrong
/dev/nbd41 has no line in the table /etc/nbdloop.tab, or none that can be read" "$(sed 's/^nbdloop: //' "$dir/said.log")"
fails nbdloop start nbd43
expect_equal "errors about nbd43" "$dir/absent.img: No such file or directory
/dev/nbd43 is not attached; its line is $table.d/more.conf:1" "$(sed 's/^nbdloop: //' "$dir/said.log")"
nbdloop stop --all >"$dir/said.log" 2>&1 || fail "a line that can't be read is no reason to fail for stop --all"
expect_equal "errors of stop --all" "$wrong" "$(sed 's/^nbdloop: //' "$dir/said.log")"
nbdloop stop nbd40 nbd44 >"$dir/said.log" 2>&1 || fail "what isn't attached can't be stopped"
[ ! -s "$dir/said.log" ] || fail "nbdloop stop says something of what isn't attached"

# ---- systemd's units
generator=$top_builddir/tool/nbdloop-generator
[ -x "$generator" ] || skip "nbdloop was built without systemd's directories"
fails "$generator" "$dir/units"
expect_equal "errors of the generator" "$wrong" "$(sed 's/^nbdloop-generator: //' "$dir/said.log")"
made=$(cd "$dir/units" && find . -name '*nbd4*' -printf '%P\n' | sort | xargs)
expect_equal "units" "dev-nbd40.device.requires dev-nbd40.device.requires/nbdloop@nbd40.service \
dev-nbd43.device.requires dev-nbd43.device.requires/nbdloop@nbd43.service dev-nbd46.device.requires \
dev-nbd46.device.requires/nbdloop@nbd46.service local-fs.target.wants/nbdloop@nbd40.service \
nbdloop@nbd40.service.d nbdloop@nbd43.service.d nbdloop@nbd46.service.d" "$made"
rm -r "$table" "$table.d" "$dir/units"
mkdir "$dir/units"
"$generator" "$dir/units" "$dir/units" "$dir/units" >"$dir/said.log" 2>&1 || fail "without a table the generator fails"
expect_equal "units without a table" "" "$(ls "$dir/units")"
fails "$generator"
