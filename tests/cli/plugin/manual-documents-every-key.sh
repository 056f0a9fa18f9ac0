#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The manual has an entry for every key that nbdkit --help lists, and for no other key.
. "$(dirname "$0")/../../lib/functions.sh"

manual=$top_builddir/man/nbdkit-loop-plugin.1
[ -e "$manual" ] || skip "the manual is not built"
listed=$(nbdkit --help "$plugin" | sed -n 's/^ *\[\{0,1\}\([a-z][a-z-]*\)=.*/\1/p' | sort)
[ -n "$listed" ] || fail "nbdkit --help lists nothing"
# An entry: .IP "\fBsector\-size=\fR512|..." 4
documented=$(sed -e 's/\\-/-/g' -e 's/\\f[A-Z]//g' -e 's/\\f(..//g' "$manual" |
	sed -n 's/^\.IP "\{0,1\}\[\{0,1\}\([a-z][a-z-]*\)=.*/\1/p' | sort -u)
expect_equal "keys of the manual" "$listed" "$documented"
