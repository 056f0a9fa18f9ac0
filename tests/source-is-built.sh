#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file and test is listed in its directory's Makefile.am: none is forgotten in a
# release, and no test is written and then never run.
set -eu

cd "$top_srcdir"
failed=0
for file in $(find bench common control engine fuzz nbd plugins server tool man wrapper tests -name '*.[ch]' -o -path 'tests/*.sh' -o -path '*/*.py' | sort); do
	case $file in
	*/.*) continue ;;
	esac
	directory=${file%/*}
	until [ -e "$directory/Makefile.am" ]; do
		directory=${directory%/*}
	done
	makefile=$directory/Makefile.am
	name=${file#"$directory/"}
	# The name of a program implies its source file.
	if ! grep -qE "(^|[[:blank:]/])(${name//./\\.}|${name%.c})\\.?([[:blank:]]|\$)" "$makefile"; then
		echo "$file is not in $makefile" >&2
		failed=1
	fi
done
exit $failed
