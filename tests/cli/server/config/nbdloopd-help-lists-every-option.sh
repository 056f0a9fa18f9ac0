#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd --help lists every option, the program accepts each of them, and the manuals have an
# entry for each.
. "$(dirname "$0")/../../../lib/functions.sh"

options_of_help()
{
	sed -n 's/^    \(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' "$dir/help" | sort
}

nbdloopd --help >"$dir/help" || fail "nbdloopd --help fails"
wanted=$(printf '%s\n' address allow allow-write bandwidth-limit base-ca base-path base-timeout ceph-conf ceph-fence ceph-keyring ceph-lock ceph-user changed-base changes check-config cluster-timeout config connections-limit control depth description direct-io discard drain-limit engine export fd fd-from fork \
	client-bandwidth-limit client-connections-limit client-iops-limit force handshake-limit help http http-token include iops-limit list lock log max-connections memory notify-fd offset page-cache pid-file poll poll-max-us port \
	clone clones-limit read-only run sandbox sandbox-path scratch sector-size sizelimit socket-activation stuck-limit swap temporary threads tls tls-certificates tls-kernel tls-priority tls-psk \
	tls-verify-peer unix user version vsock | sort)
expect_equal "options" "$wanted" "$(options_of_help)"
expect_equal "what --version says" 2 "$(nbdloopd --version | sed -n 1p | wc -w)"
nbdloopd -V | grep '^nbdloopd [0-9.]*$' >/dev/null || fail "nbdloopd -V does not tell the version"

# The program knows the option, though it may reject this value.
for option in $wanted; do
	case $option in
	help | version) continue ;;
	esac
	timeout $((20 * time_factor)) nbdloopd "--$option=" /nonexistent >"$dir/said.log" 2>&1 </dev/null && fail "--$option=: it started"
	! grep -E 'unknown' "$dir/said.log" || fail "--$option is listed, but unknown"
done

# An entry: .IP "\fB\-p\fR, \fB\-\-port=\fRN" 4
entries()
{
	sed -e 's/\\-/-/g' -e 's/\\f[A-Z]//g' -e 's/\\f(..//g' "$1" | sed -n "$2" | sort -u
}
manual=$top_builddir/man/nbdloopd.8
[ -e "$manual" ] || skip "the manual is not built"
expect_equal "options of nbdloopd(8)" "$wanted" \
	"$(entries "$manual" 's/^\.IP "\{0,1\}\(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p')"
of_file=$(grep -vxE 'check-config|config|export|fork|help|run|version' <<<"$wanted" | cat - <(echo file) | sort)
expect_equal "options of nbdloopd.conf(5)" "$of_file" \
	"$(entries "$top_builddir/man/nbdloopd.conf.5" 's/^\.IP "\{0,1\}\([a-z][a-z-]*\)=.*/\1/p')"
