#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each directory includes only what the list below allows it to (HACKING.md, "Arrows").
# arrows.sh [TREE]
set -eu

cd "${1:-$top_srcdir}"
files=$(find . -type d \( -name '.*' -not -name . -o -name 'nbdloop-*' -o -path ./_build -o -path ./build \) -prune \
	-o -name '*.[ch]' -not -path ./config.h -print | sort) # config.h at the top is made by configure
test -n "$files" || { echo "no C files in $PWD" >&2; exit 1; }

# One process for all files: a few for each take long on a busy machine.
# shellcheck disable=SC2086 # one word per file
awk -v "list=$0" '
BEGIN {
	# The directories (or single headers) that each may include besides its own.
	allowed["common"] = ""
	allowed["control"] = allowed["engine"] = allowed["nbd"] = "common"
	allowed["server"] = "engine nbd control common"
	allowed["tool"] = "engine/config.h common"
	allowed["plugins"] = "engine control common"
	allowed["man"] = "plugins server tool engine common"
	allowed["wrapper"] = ""
	allowed["fuzz"] = "nbd control common"
	allowed["bench"] = "engine common"
	allowed["tests"] = "plugins server tool engine nbd control common"

	# Libraries (a pattern of <...> includes) that each must not know; the others know all but GLib.
	foreign["common"] = foreign["control"] = "glib|gio|liburing|libnbd|nbdkit"
	foreign["nbd"] = "glib|gio|liburing|libnbd|nbdkit|linux/nbd|sys/socket"
	foreign["fuzz"] = "glib|gio|liburing|libnbd|nbdkit|linux/nbd"
	foreign["engine"] = "glib|gio|libnbd|nbdkit|linux/nbd"
	foreign["plugins"] = "glib|gio|libnbd"
	foreign["tool"] = "gio|liburing|nbdkit"

	failed = 0
	# Here, since of an empty file nothing else is seen.
	for (i = 1; i < ARGC; i++) {
		file = substr(ARGV[i], 3)
		directory = directory_of(file)
		if (!(directory in allowed))
			complain(file ": the directory " directory " is not in the list of " list)
	}
}

function complain(text)
{
	print text
	failed = 1
}

function directory_of(path)
{
	sub("/.*", "", path)
	return path
}

# Whether directory may include it.
function fits(include,    targets, count, i)
{
	count = split(directory " " allowed[directory], targets, " ")
	for (i = 1; i <= count; i++)
		if (include == targets[i] || index(include, targets[i] "/") == 1)
			return 1
	return 0
}

FNR == 1 {
	file = substr(FILENAME, 3)
	directory = directory_of(file)
	libraries = directory in foreign ? foreign[directory] : "glib|gio"
}

!(directory in allowed) || !/^[ \t]*#[ \t]*include[ \t]*["<]/ { next }

{
	include = $0
	sub(/^[ \t]*#[ \t]*include[ \t]*/, "", include)
}

include ~ "^<(" libraries ")" { complain(file ":" FNR ": " $0 "\n" file ": " directory " must not know that library") }

include ~ /^"[^"]+"/ {
	sub(/^"/, "", include)
	sub(/".*/, "", include)
	if (include !~ "/")
		complain(file ": \"" include "\" is not a path from the top of the tree")
	else if (!fits(include))
		complain(file ": " directory " must not include \"" include "\"")
}

END { exit failed }
' $files >&2
