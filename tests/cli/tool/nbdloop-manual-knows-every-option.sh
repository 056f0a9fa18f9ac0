#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each verb of nbdloop has a section in the manual, with an entry for each option of its help; those
# of set are in the manual of nbdloop export, which has the same, and those of layer in
# nbdloop-clone(7).
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
top=$(cd "$lib/../.." && pwd)
manual=$top_builddir/man/nbdloop.8

verbs=$(nbdloop --help | sed -n 's/^    \([a-z][a-z-]*\) .*/\1/p')
[ -n "$verbs" ] || fail "the help lists no verbs"

options_of_help() # VERB
{
	nbdloop "$1" --help >"$dir/help.log" || fail "nbdloop $1 --help fails"
	sed -n 's/^    \(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' "$dir/help.log" | sed '/^help$/d' | sort
}

# An entry, .IP "\fB\-p\fR, \fB\-\-port=\fRN" 4, of the section .SS "nbdloop VERB ...", or of the
# verb's own manual.
options_of_manual() # VERB
{
	local own=$top_builddir/man/nbdloop-$1.8 any=0
	[ ! -e "$own" ] || any=1
	[ "$1" != layer ] || own=$top_builddir/man/nbdloop-clone.7
	[ -e "$own" ] || own=$manual
	sed -e 's/\\-/-/g' -e 's/\\f[A-Z]//g' -e 's/\\f(..//g' "$own" |
		awk -v "verb=$1" -v any=$any '/^\.S[SH] /{inside = any || $2 == "\"nbdloop" && $3 == verb; found += inside} inside; END {exit !found}' |
		sed -n 's/^\.IP "\{0,1\}\(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' | sort
}

for verb in $verbs; do
	[ -e "$manual" ] || continue
	options_of_manual "$verb" >"$dir/options" || fail "the manual has no section about nbdloop $verb"
	[ "$verb" != set ] || options_of_manual export >"$dir/options"
	options_of_help "$verb" >"$dir/wanted"
	[ "$verb" != set ] || comm -12 "$dir/wanted" "$dir/options" >"$dir/both"
	[ "$verb" != set ] || mv "$dir/both" "$dir/options"
	expect_equal "options of nbdloop $verb in the manual" "$(cat "$dir/wanted")" "$(cat "$dir/options")"
done
for column in $(nbdloop list --help | sed -n 's/^ *\([A-Z][A-Z:-]*\)  .*/\1/p'); do
	grep -q "^=item .*C<$column>" "$top/man/nbdloop.pod" || fail "the manual has no column $column"
done

for column in $(nbdloop export --help | sed -n 's/^ *\([A-Z][A-Z:-]*\)  .*/\1/p'); do
	grep -q "^	$column  " "$top/man/nbdloop-export.pod" || fail "the manual has no column $column of exports"
done

[ -e "$manual" ] || skip "the manual is not built"
