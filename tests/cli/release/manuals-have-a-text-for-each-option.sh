#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A manual is made only if each option row of its programs has a text in it, or in the list of
# another manual that it names, and each text a row.
. "$(dirname "$0")/../../lib/functions.sh"

man=$top_builddir/man
[ -x "$man/print-options" ] || skip "the manuals are not built"
cp "$top_srcdir"/man/*.pod "$dir"
cd "$dir"

makes() # MANUAL SECTION PROGRAM
{
	VERSION=1.2.3 PODCHECKER=podchecker POD2MAN=pod2man \
		perl "$top_srcdir/man/make-manual" "$dir/$1.pod" "$2" 'A heading' "$man/$3" 2>err
}
refuses() # MESSAGE MANUAL SECTION PROGRAM
{
	! makes "${@:2}" || fail "$2 is made without: $1"
	grep -qx -- "$1" err || fail "no word of \"$1\", but: $(cat err)"
}

makes nbdloopd 8 print-options || fail "nbdloopd(8): $(cat err)"
# What is in the file is what a reader sees.
grep -qx '.IP "\\fB\\-p\\fR, \\fB\\-\\-port=\\fRN" 4' nbdloopd.8 || fail "no head of --port"
makes nbdloopd.conf 5 print-options || fail "nbdloopd.conf(5): $(cat err)"
diff <(grep -A1 '^Listen on this TCP port' nbdloopd.8) <(grep -A1 '^Listen on this TCP port' nbdloopd.conf.5)
# A metric is explained by its row, and by what the manual adds.
makes nbdloopd-control 7 print-options || fail "nbdloopd-control(7): $(cat err)"
grep -q '^Refused requests count, too' nbdloopd-control.7 || fail "a metric lacks what the manual says of it"
grep -qx 'This is nbdloopd 1\.2\.3\.' nbdloopd.8 || fail "the manual is of no version"
# A program that fails.
refuses "$man/no-program nbdloopd COMMAND failed" nbdloopd 8 no-program

# A row without a text, in its own list and in one that takes it from there.
sed -i 's/^=item vsock$/=item Vsock/' nbdloopd.pod
refuses 'nbdloopd: __SERVER__ has no text for the option vsock' nbdloopd 8 print-options
refuses 'nbdloopd.conf: __SERVER__ has no text for the option vsock' nbdloopd.conf 5 print-options
# A text without a row, or twice.
sed -i 's/^=item Vsock$/=item vsock/; s/^=item discard$/=item discards\n\nText.\n\n&/' nbdloopd.pod
refuses 'nbdloopd: __IMAGE__ has a text for discards, which is no option' nbdloopd 8 print-options
sed -i 's/^=item discards$/=item discard/' nbdloopd.pod
refuses 'nbdloopd: the option discard has two texts' nbdloopd 8 print-options
# A list that isn't there.
sed -i 's/^__EXPORT: nbdloopd IMAGE__$/__EXPORT: nbdloopd PICTURE__/' nbdloopd.conf.pod
refuses 'nbdloopd has no list __PICTURE__' nbdloopd.conf 5 print-options
