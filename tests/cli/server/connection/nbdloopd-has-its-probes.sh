#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Where configure has found sys/sdt.h, the program has the probes of its manual, with the documented
# arguments, and --version says so; elsewhere it has none, and --version says that.
. "$(dirname "$0")/../../../lib/functions.sh"

require readelf

# "NAME SIZE...": the sizes of the arguments in bytes, negative for signed ones.
probes()
{
	readelf -nW "$top_builddir/server/nbdloopd" 2>"$dir/readelf.log" | sed -n '/Provider: nbdloopd$/,/Arguments:/p' |
		while read -r key rest; do
			case $key in
			Name:) printf '%s' "$rest" ;;
			Arguments:) echo " $(grep -oE '(^| )-?[0-9]+@' <<<"$rest" | tr -d ' @\n' | sed 's/-/ -/')" ;;
			esac
		done | sort -u
}

said=$(nbdloopd --version | sed -n 's/^static probes: //p')
if grep -q '^#define HAVE_SYS_SDT_H 1$' "$top_builddir/config.h"; then
	expect_equal "probes that --version tells" yes "$said"
	expect_equal "probes" "$(printf '%s 88288 -4\n' done received replied submitted)" "$(probes)"
else
	expect_equal "probes that --version tells" no "$said"
	expect_equal "probes" "" "$(probes)"
fi

manual=$lib/../../man/nbdloopd-control.pod
expect_equal "probes of the manual" "done received replied submitted" \
	"$(sed -n '/^=head1 STATIC PROBES/,/^=head1 SEE/s/^=item B<\(.*\)>$/\1/p' "$manual" | sort | xargs)"
