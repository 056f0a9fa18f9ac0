#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The examples of the manual and of the README work when they are pasted. Only commands that need
# the kernel's NBD driver are left out, and paths outside the test's directory are moved into it.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/certificates.sh"

require_root "a network and processes of its own for each example"
require unshare curl ip psktool certtool nbdinfo nbdcopy mke2fs qemu-img qemu-io qemu-nbd qemu-system-x86_64 socat nc fdisk
top=$(cd "$lib/../.." && pwd)
manual=$top/man/nbdkit-loop-plugin.pod
for needed in "$top_builddir/run" "$top_builddir/wrapper/nbdkit"; do
	[ -x "$needed" ] || fail "there is no $needed: run ./configure first"
done
export PATH=$top_builddir/wrapper:$PATH
unshare --net --mount --pid --fork --mount-proc true 2>"$dir/unshare.log" || skip "unshare: $(cat "$dir/unshare.log")"

here=$dir/here
make_ext4_image "$dir/ext4" 64M
make_authority "$dir/pki"
make_certificate "$dir/pki" server 'cn = "localhost"\ndns_name = "localhost"\ntls_www_server'

# The examples assume that these files exist.
prepare()
{
	rm -rf "$here"
	mkdir -p "$here/images" "$here/moved"
	cp --sparse=always "$dir/ext4" "$here/disk.img"
	truncate -s 8M "$here/images/debian.img"
	cp -r "$dir/pki" "$here"
	psktool -u alice -p "$here/keys.psk" >"$dir/psktool.log" 2>&1
}

# A person who pastes is slower than this script: before the next command, a server in the
# background has written its process ID, and a killed server has ended.
cat >"$dir/slow_kill" <<'EOF'
cat()
{
	local tries=200
	case ${1-} in
	*.pid)
		until [ -s "$1" ] || [ $((tries -= 1)) -eq 0 ]; do
			sleep 0.05
		done
		;;
	esac
	command cat "$@"
}
kill()
{
	command kill "$@"
	[ "$1" != -HUP ] || return 0
	while command kill -0 "$@" 2>/dev/null; do
		sleep 0.05
	done
}
EOF

# The server goes into the background, as in a terminal; it ends with the example's process
# namespace, which has a /proc of its own: LeakSanitizer looks for its process there.
run_example() # SCRIPT
{
	local name status=0
	name=$(grep -m 1 -E 'nbdkit|nbdloopd' "$1" || head -n 1 "$1")
	prepare
	# QEMU runs without a window, and only until it has opened the drive; nbdloopd, which stays
	# in the foreground, until it is ready.
	sed -E -e '/^(modprobe|nbd-client|nbdloop attach|nbdloop detach|mount|umount|mkfs[.]ext4) /d' \
		-e "s|/tmp/|$here/moved/|g" -e "s|/srv/images|$here/images|g" \
		-e 's|^\./run nbdloopd .*|& -P ready.pid \& kill $(cat ready.pid)|' \
		-e "s|^\./run |'$top_builddir/run' |" \
		-e '/--run/s/qemu-system-x86_64/echo quit | & -display none -S -monitor stdio/' \
		-e '/^qemu-system/s/$/ -display none -S -monitor stdio <<<quit/' "$1" >"$1.run"
	# shellcheck disable=SC2016 # for the inner shell
	(cd "$here" && timeout $((200 * time_factor)) unshare --net --mount --pid --fork --mount-proc --kill-child \
		"$BASH" -euc 'ip link set lo up; . "$1"; . "$2"' example "$dir/slow_kill" "$1.run") \
		>"$dir/example.log" 2>&1 </dev/null || status=$?
	[ $status = 0 ] || {
		mv "$dir/example.log" "$dir/z-example.log" # of a long log, the end is shown
		cp "$1.run" "$dir/script.log"
		fail "an example ends with status $status: $name"
	}
	! grep -E 'error: |"error"|[Cc]ould not|warning: ' "$dir/example.log" >&2 || fail "an example complains: $name"
}

mkdir "$dir/manual" "$dir/readme" "$dir/control" "$dir/server" "$dir/changes" "$dir/limits" "$dir/snapshots" "$dir/tls" "$dir/backup" "$dir/exports" "$dir/rules" "$dir/qemu"
"$python" "$lib/examples.py" "$manual" "$dir/manual" EXAMPLES "DEBUG FLAG"
"$python" "$lib/examples.py" "$top/README" "$dir/readme"
pages=()
! has_http || pages=("PAGE AND METRICS")
"$python" "$lib/examples.py" "$top/man/nbdloopd.pod" "$dir/server" EXAMPLES
"$python" "$lib/examples.py" "$top/man/nbdloopd-control.pod" "$dir/changes" "CONTROL SOCKET" "${pages[@]}"
# These need nbdloop.
if [ -x "$top_builddir/tool/nbdloop" ]; then
	"$python" "$lib/examples.py" "$manual" "$dir/control" "CONTROL SOCKET"
	"$python" "$lib/examples.py" "$top/man/nbdloopd.pod" "$dir/rules" "Rules"
	"$python" "$lib/examples.py" "$top/man/nbdloop-export.pod" "$dir/exports" EXAMPLES
	"$python" "$lib/examples.py" "$top/man/nbdloop-limits.pod" "$dir/limits" EXAMPLES
	"$python" "$lib/examples.py" "$top/man/nbdloop-qemu.pod" "$dir/qemu" QEMU LIBVIRT QCOW2 "WHY AN EXPORT IS READ-ONLY"
	"$python" "$lib/examples.py" "$top/man/nbdloop-snapshots.pod" "$dir/snapshots" EXAMPLES
	"$python" "$lib/examples.py" "$top/man/nbdloop-backup.pod" "$dir/backup" EXAMPLES
	! nbdloop keys certificates --server=localhost "$dir/made" >"$dir/keys.log" 2>&1 ||
		"$python" "$lib/examples.py" "$top/man/nbdloop-tls.pod" "$dir/tls" "WITH KEYS" "WITH CERTIFICATES"
fi
for example in "$dir"/manual/[0-9][0-9] "$dir"/readme/[0-9][0-9] "$dir"/server/[0-9][0-9] "$dir"/changes/[0-9][0-9]; do
	run_example "$example"
done
for example in "$dir"/tls/[0-9][0-9] "$dir"/backup/[0-9][0-9] "$dir"/rules/[0-9][0-9] "$dir"/exports/[0-9][0-9] "$dir"/qemu/[0-9][0-9] \
	"$dir"/limits/[0-9][0-9] "$dir"/snapshots/[0-9][0-9] "$dir"/control/[0-9][0-9]; do
	[ ! -e "$example" ] || run_example "$example"
done
[ -e "$dir/control/01" ] || exit 0
grep -q "^NAME .*BACK-FILE$" "$dir/example.log" || fail "the control socket's example lists nothing"
grep -q '"direct_io":false' "$dir/example.log" || fail "the control socket's example changes nothing"
