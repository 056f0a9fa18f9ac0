#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# HACKING.md's glossary and "One read, one write" name no file, function or structure that has been
# removed or renamed. Each name stands between backquotes: `engine/io/io.c`, `io_submit()`, `struct
# io`.
set -eu

cd "$top_srcdir"
text=$(sed -n '/^## Glossary$/,/^## /p; /^## One read, one write$/,/^## /p' HACKING.md)
failed=0
# each PATTERN: prints the names between backquotes that match
each()
{
	grep -oE "\`$1\`" <<<"$text" | tr -d '`' | sort -u
}

complain()
{
	echo "HACKING.md: there is no $1" >&2
	failed=1
}

files=$(each '[a-z_/]+/[a-z_]+\.[ch]')
functions=$(each '[a-z_]+\(\)')
structs=$(each 'struct [a-z_]+')
for list in "$files" "$functions" "$structs"; do
	test -n "$list" || { echo "HACKING.md has no such section, or this test can't read it" >&2; exit 1; }
done
for file in $files; do
	test -f "$file" || complain "$file"
done
for function in $functions; do
	case $function in
	io_uring_enter*) continue ;; # a function of the kernel
	esac
	grep -rqE "^${function%??}\(" --include='*.c' engine nbd server plugins tool || complain "$function"
done
while read -r struct; do
	grep -rqE "^$struct( \{|$)" --include='*.[ch]' engine nbd server plugins tool || complain "$struct"
done <<<"$structs"
exit $failed
