#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# After an upgrade, the script of Debian's package names the services that still run the old
# program, and how to replace them; and it makes the directory of keys.
. "$(dirname "$0")/../../../lib/functions.sh"

script=$lib/../../debian/nbdloopd.postinst
[ -e "$script" ] || skip "a release has no debian/"
mkdir -p "$dir/bin" "$dir/root/etc"
cp "$(command -v sleep)" "$dir/old"
spawn old "$dir/old" 1000
old=$!
runs_old()
{
	[ "$(readlink "/proc/$old/exe")" = "$dir/old" ]
}
wait_until "the old program runs" runs_old
spawn new sleep 1000
new=$!
rm "$dir/old"

cat >"$dir/bin/systemctl" <<EOF2
#!/bin/sh
case \$*:\$4 in
list-units*) printf 'nbdloopd.service loaded active running NBD server\nnbdloopd@web.service loaded active running NBD server\n' ;;
show*:nbdloopd.service) echo $old ;;
show*) echo $new ;;
esac
EOF2
printf '#!/bin/sh\nexit 0\n' >"$dir/bin/nbdloop"
printf '#!/bin/sh\necho "$@" >%s\n' "$dir/installed" >"$dir/bin/install"
chmod +x "$dir/bin/"*

configure() # [VERSION]
{
	PATH=$dir/bin:$PATH DPKG_ROOT=$dir/root sh "$script" configure "$@" >"$dir/said" 2>&1 || fail "the script fails"
}
configure 0.0.1
expect_equal "what it says" \
	"nbdloopd: nbdloopd.service still runs the old version; to replace it, which interrupts its clients: systemctl restart nbdloopd.service" \
	"$(cat "$dir/said")"
expect_equal "the directory that it makes" "-d -o root -g nbdloopd -m 750 $dir/root/etc/nbdloopd" "$(cat "$dir/installed")"
rm "$dir/installed"
mkdir "$dir/root/etc/nbdloopd"
configure ""
expect_equal "what it says after the first installation" "" "$(cat "$dir/said")"
[ ! -e "$dir/installed" ] || fail "it makes a directory that is there"
