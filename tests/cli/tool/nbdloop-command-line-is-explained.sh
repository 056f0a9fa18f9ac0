#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When a command line, a device's name or the machine is wrong, nbdloop names the mistake and the
# remedy. It exits with status 2 if the command line alone shows the mistake, else with 1. None of
# this needs a device of the nbd driver.
. "$(dirname "$0")/../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"
[ -x "$top_builddir/tool/nbdloop" ] || skip "nbdloop was not built"

refuses() # REGEX ARGUMENT...
{
	local wanted=$1 status=0
	shift
	timeout $((20 * time_factor)) nbdloop "$@" >"$dir/said.out" 2>"$dir/said.log" </dev/null || status=$?
	expect_equal "status of nbdloop $*" "${failure_status-2}" "$status"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/said.log" || fail "nbdloop $* doesn't say: $wanted"
	[ ! -s "$dir/said.out" ] || fail "nbdloop $* prints something, though it fails"
	expect_equal "lines of nbdloop $*" 1 "$(wc -l <"$dir/said.log")"
}

verbs=$(nbdloop --help | sed -n 's/^    \([a-z][a-z-]*\)  .*/\1/p')
expect_equal "verbs" "adopt attach backup change check checkpoint clone detach export keys layer list replace-server resize restore set snapshot start status stop top" "$(echo $verbs)"
expect_equal "version" "nbdloop $(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$top_builddir/config.h")" "$(nbdloop --version)"

# --help lists the options; nbdloop knows each listed option and rejects any other.
for verb in $verbs; do
	nbdloop "$verb" --help >"$dir/help" || fail "nbdloop $verb --help fails"
	grep -q "^Usage: nbdloop $verb " "$dir/help" || fail "nbdloop $verb --help doesn't show how it is used"
	! grep 'default: .*default: ' "$dir/help" || fail "nbdloop $verb --help tells a default twice"
	options=$(sed -n 's/^    \(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' "$dir/help")
	case $verb in
	attach)
		wanted="bandwidth-limit ceph-conf ceph-keyring ceph-user cluster-timeout connections dead-timeout iops-limit direct-io engine fenced find force help nooverlap offset page-cache partscan poll read-only sector-size
			scratch server show sizelimit swap temporary threads timeout tls tls-certificates tls-hostname tls-psk tls-verify-peer"
		;;
	backup) wanted="bitmap connections expire export force format freeze help incremental json keep keep-daily keep-weekly metrics next-bitmap scratch scratch-size state timeout verify" ;;
	check) wanted="help timeout" ;;
	clone) wanted="granule help seal size" ;;
	detach) wanted="all help lazy" ;;
	export) wanted="allow allow-write bandwidth-limit client-bandwidth-limit client-connections-limit client-iops-limit clients connections-limit direct-io help iops-limit json noheadings output" ;;
	keys) wanted="client days help replace server" ;;
	layer) wanted="base base-path force help json repair" ;;
	list) wanted="associated help json noheadings offset output output-all raw" ;;
	restore) wanted="connections force help json timeout until" ;;
	set) wanted="allow allow-write bandwidth-limit client-bandwidth-limit client-connections-limit client-iops-limit connections-limit direct-io help iops-limit" ;;
	checkpoint) wanted="export granularity help json" ;;
	snapshot) wanted="all checkpoint expire freeze help remove scratch scratch-size" ;;
	start | stop) wanted="all help" ;;
	status) wanted="help json watch" ;;
	top) wanted="batch count delay help json sort" ;;
	*) wanted=help ;;
	esac
	# shellcheck disable=SC2086 # several words
	expect_equal "options of $verb" "$(printf '%s\n' $wanted | sort)" "$(sort <<<"$options")"
	refuses "unknown or ambiguous option --nonsense; nbdloop $verb --help" "$verb" --nonsense
	refuses "unknown option -Z; nbdloop $verb --help" "$verb" -Z
done
for word in "-f" "-r" "-P" "-L" "-o 1" "-b 512" "--show" "--sizelimit 1"; do
	# shellcheck disable=SC2086 # several words
	refuses 'IMAGE\|URI is missing: nbdloop attach' attach $word
done

# These are losetup's own messages.
refuses '-a comes after a verb: nbdloop list;' -a
refuses '-f comes after a verb: nbdloop attach IMAGE;' -f
refuses '-f comes after a verb: nbdloop attach IMAGE;' -f "$image"
refuses '--find comes after a verb: nbdloop attach IMAGE;' --find --show "$image"
refuses '-d comes after a verb: nbdloop detach DEVICE;' -d /dev/nbd0
refuses '-D comes after a verb: nbdloop detach --all;' -D
refuses '--direct-io=on comes after a verb: nbdloop attach --direct-io IMAGE, or nbdloop set' --direct-io=on /dev/nbd0
refuses 'a verb is missing before /dev/nbd0: nbdloop list /dev/nbd0 shows what it is;' /dev/nbd0
refuses "a verb is missing before $image: nbdloop attach $image makes a device of it;" "$image" nbd0
refuses 'there is no verb "--nonsense"' --nonsense
refuses 'there is no verb "atach"' atach "$image"
refuses 'IMAGE\|URI is missing: nbdloop attach \[OPTION\]' attach
refuses '"three" is one word too many' attach "$image" nbd0 three
refuses '--offset needs a value: --offset=SIZE' attach "$image" -o
refuses '--offset=12x: must be a size' attach -o 12x "$image"
refuses '--sector-size=8192: must be one of 512, 1024, 2048, 4096' attach -b 8192 "$image"
refuses '--direct-io=maybe: must be one of off, on, auto' attach --direct-io=maybe "$image"
refuses '--connections=0: must be a whole number from 1 to 64' attach --connections=0 "$image"
failure_status=1 refuses 'missing\.img: No such file or directory' attach "$dir/missing.img"
failure_status=1 refuses 'is neither a file nor a block device' attach "$dir"
failure_status=1 refuses '/dev/loop0 is no device of the nbd driver' attach "$image" /dev/loop0
failure_status=1 refuses '/dev/nbd0p1 is no device of the nbd driver.*not a partition' attach "$image" /dev/nbd0p1
: >"$dir/empty.img"
head -c 100 /dev/zero >"$dir/tiny.img"
failure_status=1 refuses 'empty.img is empty, and a device has at least one block, of 512 bytes' attach "$dir/empty.img"
failure_status=1 refuses 'tiny.img has 100 bytes, and a device at least one block, of 512' attach "$dir/tiny.img"
failure_status=1 refuses '--sizelimit=100: a device has at least one block, of 4096 bytes' attach --sizelimit=100 -b 4096 "$image"
failure_status=1 refuses '--offset=1048065: .*disk.img has 1048576 bytes, and after the offset there is no block of 512' attach -o 1048065 "$image"
refuses '--find chooses a free device: leave it out' attach -f "$image" nbd0
refuses '--iops-limit is for images' attach --iops-limit=5 nbd://localhost
refuses 'limits are for nbdloopd; nbdkit has its rate filter' attach --server=nbdkit --bandwidth-limit=5M "$image"
refuses '--offset is for images' attach -o 512 nbd://localhost
refuses '--tls-psk is for nbds:// URIs' attach --tls-psk=keys.psk nbd://localhost
refuses '--tls-psk is for nbds:// URIs, and .*disk.img is an image' attach --tls-psk=keys.psk "$image"
refuses '--tls is for nbds:// URIs' attach --tls=kernel nbd://localhost
refuses '--tls=off: must be kernel or proxy' attach --tls=off nbds://localhost
refuses '--swap needs TLS by the kernel: .*leave out --tls=proxy' attach --swap --tls=proxy nbds://localhost
refuses '--tls-certificates is for certificates, and --tls-psk for keys' attach --tls-psk=a --tls-certificates=b nbds://localhost
refuses 'nbd://a,b/x.*with several servers, .*If a lost server is fenced .* --fenced .*or attach it --read-only' attach nbd://a,b/x
refuses 'nbd://a,,b/x: a server.s name is missing beside a comma' attach --fenced nbd://a,,b/x
refuses '--fenced is for a URI of several servers, as in nbd://a,b/name' attach --fenced nbd://a/x
refuses '--fenced is for a URI of several servers, and .*disk.img is an image' attach --fenced "$image"
refuses 'the kernel has TLS for TCP only.*--tls=proxy' attach "nbds+unix:///?socket=/run/nbd.sock"
refuses 'SOURCE is missing: nbdloop backup' backup
refuses 'TARGET is missing: nbdloop backup' backup nbd://localhost
refuses '"three" is one word too many: nbdloop backup' backup nbd://localhost copy.img three
refuses '--format=qcow2: must be one of raw, delta|--format=qcow2: must be raw or delta' backup --format=qcow2 nbd://localhost copy.img
refuses '--connections=17: must be a whole number from 1 to 16' backup --connections=17 nbd://localhost copy.img
refuses '--until=last: must be the number of a backup, or a date, such as 2026-11-27, ' restore --until=last "$dir" copy.img
refuses '--until=2026-02-30: must be the number of a backup' restore --until=2026-02-30 "$dir" copy.img
refuses '--until=99999999999: there is no such backup' restore --until=99999999999 "$dir" copy.img
refuses 'TARGET is missing: nbdloop restore' restore "$dir"
refuses 'DEVICE\|SOCKET\|\[SOCKET:\]EXPORT\|URI is missing: nbdloop check' check
failure_status=1 refuses 'disk.img is neither a device, such as /dev/nbd0, nor the control socket of a server$' check "$image"
failure_status=1 refuses 'disk.img is neither a device' list "$image"
[ -e /run/nbdloopd/control.sock ] || failure_status=1 refuses 'ndb0 is no device, such as nbd0; as an export: there is no control socket /run/nbdloopd/control.sock' list ndb0
failure_status=1 refuses 'disk.img is neither a device' set --direct-io=on "$image"
failure_status=1 refuses 'disk.img is neither a device' resize "$image"
refuses '"web" is no device: list takes devices, or one SOCKET' list nbd0 web
refuses '--associated, --offset, --output-all and --raw are for devices, and "web" is none' list --raw web
refuses '--json prints all' list --json --noheadings web
refuses 'unknown column: COLOUR; nbdloop export --help' list -O COLOUR web
[ "$(id -u)" != 0 ] || [ -e /sys/block/nbd7 ] || failure_status=1 refuses 'there is no device /dev/nbd7' check nbd7
refuses 'name a device to detach, or use --all' detach
refuses '--all is for all devices' detach --all nbd0
refuses 'name a device of the table, or use --all' start
refuses 'name a device of the table, or use --all' stop
refuses '--all is for all devices of the table' start --all nbd0
refuses '--all is for all devices of the table' stop nbd0 -a
failure_status=1 refuses 'loop0 is no device of the nbd driver' start loop0
refuses 'DEVICE\|SOCKET\|\[SOCKET:\]EXPORT is missing: nbdloop resize DEVICE' resize
refuses 'DEVICE is missing: nbdloop change DEVICE IMAGE' change
refuses 'IMAGE is missing: nbdloop change DEVICE IMAGE' change nbd0
refuses 'DEVICE\|SOCKET\|\[SOCKET:\]EXPORT is missing: nbdloop set' set --direct-io
refuses '"three" is one word too many: nbdloop change' change nbd0 "$image" three
failure_status=1 refuses '/dev/loop0 is no device of the nbd driver' change /dev/loop0 "$image"
[ "$(id -u)" != 0 ] || [ -e /sys/block/nbd7 ] || failure_status=1 refuses 'there is no device /dev/nbd7' change nbd7 "$image"
refuses 'NEW is missing: nbdloop snapshot' snapshot nbd0
refuses '"four" is one word too many' snapshot nbd0 new old four
failure_status=1 refuses 'disk.img is neither a device, such as /dev/nbd0, nor the control socket of a server$' snapshot "$image" new
failure_status=1 refuses 'gone.sock is neither a device, .* nor the control socket of a server: there is no such file$' checkpoint list "$dir/gone.sock"
failure_status=1 refuses 'gone.sock is neither a device, .*: there is no such file$' backup "$dir/gone.sock" "$dir/copy.img"
refuses 'no action "make": it is create, list or delete' checkpoint make nbd0 new
refuses 'NAME is missing: create needs it' checkpoint create nbd0
refuses 'list takes no NAME' checkpoint list nbd0 new
refuses '--granularity is for create' checkpoint --granularity=4k delete nbd0 new
refuses '--json is for list' checkpoint --json create nbd0 new
refuses 'a setting is missing' set nbd0
refuses 'KIND is missing: nbdloop keys' keys
refuses 'FILE\|DIRECTORY is missing: nbdloop keys' keys psk
refuses 'no keys of the kind "x509": it is psk or certificates' keys x509 "$dir/pki"
refuses 'USER is missing: nbdloop keys psk FILE USER' keys psk "$dir/keys.psk"
refuses '--server, --client and --days are for certificates' keys --server=nas psk "$dir/keys.psk" alice
refuses 'nothing is to be made: use --server=HOST' keys certificates "$dir/pki"
refuses '"nas" is one word too many: nbdloop keys certificates' keys certificates "$dir/pki" nas
refuses '--days=4000: must be a whole number from 0 to 3650' keys --days=4000 certificates "$dir/pki"
refuses '--direct-io=auto: must be on or off$' set --direct-io=auto nbd0
refuses '--direct-io=unchanged: must be on or off$' set --direct-io=unchanged nbd0

# The user is not root.
use_unprivileged_server
for arguments in "attach $image" "detach nbd0" "resize nbd0" "change nbd0 $image" "set --direct-io=on nbd0" "adopt nbd0" "replace-server nbd0" "snapshot nbd0 new" "checkpoint create nbd0 new" "checkpoint list nbd0"; do
	status=0
	# shellcheck disable=SC2086 # several words
	"${as_nobody[@]}" "$top_builddir/tool/nbdloop" $arguments >"$dir/said.log" 2>&1 || status=$?
	expect_equal "status of nbdloop $arguments, not as root" 1 "$status"
	grep -q '^nbdloop: only root can' "$dir/said.log" || fail "nbdloop $arguments doesn't say that it is for root"
done

# Where the kernel has no nbd driver, nbdloop says that the driver can't be loaded, or, where
# modprobe isn't installed, that there is no program to load it.
if [ "$(id -u)" = 0 ] && ! modprobe -qn nbd 2>/dev/null && [ ! -e /sys/module/nbd ]; then
	reason="the kernel's nbd driver isn't loaded, and can't be: .*Load the module nbd"
	command -v modprobe >/dev/null || reason="there is no modprobe to load it: install the package kmod"
	failure_status=1 refuses "$reason" attach "$image"
	failure_status=1 refuses "$reason" detach nbd0
	! pgrep -f "nbdloopd .*$image" >/dev/null || fail "a server is left"
	# Other tests have files in /run/nbdloop: this attach has a directory of its own there.
	if unshare --mount true 2>/dev/null; then
		mkdir -p -m 700 /run/nbdloop
		# shellcheck disable=SC2016 # for the inner shell
		left=$(unshare --mount "$BASH" -c 'mount -t tmpfs tmpfs /run/nbdloop
			nbdloop attach "$1" 2>"$2"
			ls -A /run/nbdloop' bash "$image" "$dir/said.log")
		grep -qE "$reason" "$dir/said.log" || fail "attach says something else"
		expect_equal "files that the refused attach leaves" "" "$left"
	fi
fi
