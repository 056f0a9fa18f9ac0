#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each verb of nbdloop has a section in the manual, with an entry for each option of its help; bash
# completes verbs, options and their values.
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

# An entry, .IP "\fB\-p\fR, \fB\-\-port=\fRN" 4, of the section .SS "nbdloop VERB ...".
options_of_manual() # VERB
{
	sed -e 's/\\-/-/g' -e 's/\\f[A-Z]//g' -e 's/\\f(..//g' "$manual" |
		awk -v "verb=$1" '/^\.S[SH] /{inside = $2 == "\"nbdloop" && $3 == verb; found += inside} inside; END {exit !found}' |
		sed -n 's/^\.IP "\{0,1\}\(-[A-Za-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' | sort
}

for verb in $verbs; do
	[ -e "$manual" ] || continue
	options_of_manual "$verb" >"$dir/options" || fail "the manual has no section about nbdloop $verb"
	expect_equal "options of nbdloop $verb in the manual" "$(options_of_help "$verb")" "$(cat "$dir/options")"
done
for column in $(nbdloop list --help | sed -n 's/^ *\([A-Z][A-Z:-]*\)  .*/\1/p'); do
	grep -q "^=item .*C<$column>" "$top/man/nbdloop.pod" || fail "the manual has no column $column"
done

# ---- completion
use_recorded_system
cd "$dir"
truncate -s 1M disk.img
. "$top/tool/completion/nbdloop"

# Prints the completions of these words, the last of which is incomplete, sorted and on one line.
completes() # WANTED WORD...
{
	local wanted=$1
	shift
	COMP_WORDS=(nbdloop "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	# compopt fails when no completion is in progress.
	_nbdloop || true
	expect_equal "completion of: nbdloop $*" "$wanted" "$(printf '%s\n' "${COMPREPLY[@]}" | sort | xargs)"
}

completes "$(printf '%s\n' $verbs --help --version | sort | xargs)" ''
completes 'list' li
for verb in $verbs; do
	options=$(options_of_help "$verb")
	_nbdloop_options "$verb" | sed -e 's/^--//' -e 's/\[\{0,1\}=.*//' -e '/^help$/d' | sort >"$dir/completed"
	expect_equal "completed options of $verb" "$options" "$(cat "$dir/completed")"
done
completes '--output-all --output=' list --outp
completes '--direct-io --direct-io=' set --dir
completes 'auto off on' attach --direct-io =
completes 'off' set --direct-io = of
completes '/dev/nbd10' set --direct-io /dev/nbd10
completes '' status -w = 1
completes '/dev/nbd10' status -w /dev/nbd10
completes '/dev/nbd0 /dev/nbd1 /dev/nbd10' list /dev/
completes '/dev/nbd10' status /dev/nbd10
mkdir -p "$NBDLOOP_SYSROOT/etc/nbdloop.tab.d"
printf '# nbd9 /x\nnbd4 /srv/disk.img noauto\n' >"$NBDLOOP_SYSROOT/etc/nbdloop.tab"
echo '/dev/nbd5 nbd://localhost' >"$NBDLOOP_SYSROOT/etc/nbdloop.tab.d/one.conf"
completes '/dev/nbd4 /dev/nbd5' start ''
completes '/dev/nbd5' stop /dev/nbd5
completes '--all' start --a
rm "$NBDLOOP_SYSROOT/etc/nbdloop.tab"
completes '/dev/nbd5' start ''
completes 'BACK-FILE BACK-INO BACK-MAJ BACK-MAJ:MIN BACK-MIN BACKEND' list -O BACK
completes 'NAME,SERVER NAME,SERVER-PID' list -O NAME,serv
completes '+ENGINE' list --output = +ENG
completes 'disk.img' list -j dis
completes '' list --offset 1
completes 'certificates' keys cert
completes 'disk.img' keys psk dis
completes 'disk.img' backup nbd://localhost dis
completes 'delta raw' backup --format =
completes 'disk.img' backup --state = dis
completes 'disk.img' restore dis

[ -e "$manual" ] || skip "the manual is not built; completion passed"
