#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Prints files as arrays of C that are named after them: http/page.html is page_html.
set -eu
export LC_ALL=C

echo '/* Made by server/http/embed.sh. */'
for file; do
	name=$(basename "$file" | tr . _)
	echo "static const unsigned char $name[] = {"
	od -An -v -tu1 "$file" | sed 's/\([0-9][0-9]*\)/\1,/g'
	echo '};'
done
