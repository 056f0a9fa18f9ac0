#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each directory includes only what the list below allows it to (HACKING.md, "Arrows").
# arrows.sh [TREE]
set -eu

cd "${1:-$top_srcdir}"
failed=0

complain()
{
	echo "$1" >&2
	failed=1
}

# allowed DIRECTORY: the directories (or single headers) that it may include besides its own
allowed()
{
	case $1 in
	common) echo ;;
	control | engine | nbd) echo common ;;
	server) echo engine nbd control common ;;
	tool) echo engine/config.h common ;;
	plugins) echo engine control common ;;
	man) echo plugins server tool engine common ;;
	wrapper) echo ;;
	fuzz) echo nbd control common ;;
	bench) echo engine common ;;
	tests) echo plugins server tool engine nbd control common ;;
	*) return 1 ;;
	esac
}

# foreign DIRECTORY: libraries (a pattern of <...> includes) that it must not know
foreign()
{
	case $1 in
	common | control) echo '(glib|gio|liburing|libnbd|nbdkit)' ;;
	nbd) echo '(glib|gio|liburing|libnbd|nbdkit|linux/nbd|sys/socket)' ;;
	fuzz) echo '(glib|gio|liburing|libnbd|nbdkit|linux/nbd)' ;;
	engine) echo '(glib|gio|libnbd|nbdkit|linux/nbd)' ;;
	plugins) echo '(glib|gio|libnbd)' ;;
	tool) echo '(gio|liburing|nbdkit)' ;;
	*) echo '(glib|gio)' ;;
	esac
}

files=$(find . -type d \( -name '.*' -not -name . -o -name 'nbdloop-*' -o -path ./_build -o -path ./build \) -prune \
	-o -name '*.[ch]' -print | sort)
test -n "$files" || { echo "no C files in $PWD" >&2; exit 1; }

for file in $files; do
	file=${file#./}
	case $file in
	config.h) continue ;; # made by configure
	esac
	directory=${file%%/*}
	if ! targets=$(allowed "$directory"); then
		complain "$file: the directory $directory is not in the list of $0"
		continue
	fi
	while read -r include; do
		test -n "$include" || continue
		case $include in
		*/*) ;;
		*)
			complain "$file: \"$include\" is not a path from the top of the tree"
			continue
			;;
		esac
		fits=no
		for target in "$directory" $targets; do
			case $include in
			"$target" | "$target"/*) fits=yes ;;
			esac
		done
		test $fits = yes || complain "$file: $directory must not include \"$include\""
	done <<-INCLUDES
		$(sed -n 's/^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*"\([^"]*\)".*/\1/p' "$file")
	INCLUDES
	if grep -nE "^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*<$(foreign "$directory")" "$file" >&2; then
		complain "$file: $directory must not know that library"
	fi
done
exit $failed
