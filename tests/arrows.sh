#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each folder includes only what the list below allows it to (HACKING.md, "Arrows"), and no files
# include each other in a circle: a header and its .c count as one.
# arrows.sh [TREE]
# arrows.sh --print: prints the list by components, as HACKING.md has it; --write: puts it there
set -eu

script=$(realpath "$0")
print=
case ${1:-} in
--print)
	print=yes
	cd "${script%/*}/.."
	;;
--write)
	cd "${script%/*}/.."
	"$script" --print | sed -i -e '/^<!-- arrows/,/^<!-- end/{//!d}' -e '/^<!-- arrows/r /dev/stdin' HACKING.md
	exit
	;;
*)
	cd "${1:-$top_srcdir}"
	exec >&2
	;;
esac
files=$(find . -type d \( -name '.*' -not -name . -o -name 'nbdloop-*' -o -path ./_build -o -path ./build \) -prune \
	-o -name '*.[ch]' -not -path ./config.h -print | sort) # config.h at the top is made by configure
test -n "$files" || { echo "no C files in $PWD" >&2; exit 1; }

# One process for all files: a few for each take long on a busy machine.
# shellcheck disable=SC2086 # one word per file
awk -v "list=$script" -v "print_only=$print" '
BEGIN {
	# The folders (or single headers) that each folder may include, besides its own; engine/*
	# stands for engine and its sub-folders.
	allowed["common"] = ""
	allowed["control"] = allowed["nbd"] = "common"
	allowed["nbd/tls"] = "nbd common"

	allowed["engine"] = "common"
	allowed["engine/backing"] = "engine/backing/file/file.h engine/backing/ceph/rbd.h engine/backing/ceph/rbd_name.h engine/backing/http/http.h engine/backing/http/http_name.h engine/layer/layer_backing.h engine common"
	allowed["engine/layer"] = "engine/changes/boot.h engine/snapshot/scratch.h engine/backing/file engine/backing engine common"
	allowed["engine/backing/file"] = allowed["engine/backing/ceph"] = allowed["engine/backing/http"] = "engine/backing engine common"
	allowed["engine/backing/ceph/module"] = "engine/backing/ceph engine/backing engine common"
	allowed["engine/backing/http/fetch"] = "engine/backing/http common"
	allowed["engine/io"] = "engine/layer engine/backing engine common"
	allowed["engine/backend"] = "engine/io engine/backing engine common"
	allowed["engine/context"] = "engine/backend engine/io engine common"
	allowed["engine/changes"] = "engine/layer engine/image engine/io engine/backing engine common"
	allowed["engine/image"] = "engine/context engine/backend engine/io engine/backing engine common"
	allowed["engine/snapshot"] = "engine/backing/file engine/image engine/context engine/io engine/backing engine common"

	allowed["server/access"] = "common"
	allowed["server/limit"] = "common"
	allowed["server/config"] = "server/access server/limit engine engine/backing common"
	allowed["server/loop"] = "engine engine/backend common"
	allowed["server/memory"] = "server/loop engine/* common"
	allowed["server/request"] = "server/memory engine/* nbd common"
	allowed["server/connection"] = "server/memory server/request server/loop server/access server/limit engine/* nbd nbd/tls common"
	allowed["server/worker"] = "server/connection server/request server/memory server/limit server/loop engine/* nbd common"
	allowed["server/sandbox"] = "server/config engine engine/backing engine/backend nbd/tls common"
	allowed["server/exports"] = "server/sandbox server/worker server/request server/connection server/config server/access server/limit engine/* nbd control common"
	allowed["server/http"] = "server/sandbox server/exports server/worker server/request server/connection server/config server/limit engine/* common"
	allowed["server/daemon"] = "server/sandbox server/http server/exports server/worker server/request server/connection server/loop server/config server/access engine/* nbd nbd/tls control common"

	allowed["tool"] = "tool/verb tool/guard tool/device common"
	allowed["tool/link"] = "tool/failure.h tool/nap.h nbd nbd/tls engine/backing/image_kinds.h common"
	allowed["tool/keys"] = "tool/failure.h common"
	allowed["tool/device"] = "tool/link tool/failure.h tool/system_file.h engine/backing/image_kinds.h common"
	allowed["tool/source"] = "tool/device tool/link tool/failure.h tool/nap.h nbd nbd/tls common"
	allowed["tool/guard"] = "tool/source tool/device tool/link tool/failure.h tool/nap.h tool/system_file.h nbd/protocol.h common"
	allowed["tool/attach"] = "server/limit tool/guard tool/source tool/device tool/link tool/failure.h engine engine/backing/image_kinds.h common"
	allowed["tool/table"] = "tool/attach tool/device tool/link tool/failure.h tool/system_file.h engine/backing/image_kinds.h common"
	allowed["tool/show"] = "tool/guard tool/device tool/link tool/failure.h tool/system_file.h engine common"
	allowed["tool/top"] = "tool/show tool/device tool/link tool/failure.h tool/system_file.h engine common"
	allowed["tool/backup"] = "tool/show tool/device tool/link tool/failure.h nbd/wire.h common"
	allowed["tool/verb"] = "engine/layer tool/top tool/backup tool/keys tool/show tool/table tool/attach tool/guard tool/source tool/device tool/link tool/failure.h tool/nap.h tool/system_file.h common"

	allowed["plugins/loop"] = "engine/* control common"
	allowed["man"] = "plugins/* server/* tool/* engine/* common"
	allowed["wrapper"] = ""
	allowed["fuzz"] = "nbd/* control engine/changes engine/layer tool/backup common"
	allowed["bench"] = "engine/* common"
	allowed["tests"] = "tests/* plugins/* server/* tool/* engine/* nbd/* control common"

	# Libraries, as patterns of <...> includes, that a component or folder must not know; all
	# others may include them, except GLib and GnuTLS.
	foreign["common"] = foreign["control"] = "glib|gio|gnutls|liburing|libnbd|nbdkit"
	foreign["nbd"] = "glib|gio|gnutls|liburing|libnbd|nbdkit|linux/nbd|sys/socket"
	foreign["nbd/tls"] = "glib|gio|liburing|libnbd|nbdkit|linux/nbd"
	foreign["fuzz"] = "glib|gio|gnutls|liburing|libnbd|nbdkit|linux/nbd"
	foreign["engine"] = "glib|gio|gnutls|libnbd|nbdkit|linux/nbd|rados|rbd/|curl"
	foreign["engine/backing/http/fetch"] = "glib|gio|gnutls|libnbd|nbdkit|linux/nbd|rados|rbd/"
	foreign["engine/backing/ceph/module"] = "glib|gio|gnutls|libnbd|nbdkit|linux/nbd"
	foreign["plugins"] = "glib|gio|gnutls|libnbd"
	foreign["tests"] = "glib|gio"
	foreign["tool"] = "gio|gnutls|liburing|libnbd|nbdkit"
	foreign["bench"] = "glib|gio"
	foreign["tool/backup"] = "gio|gnutls|liburing|nbdkit"

	text = text_of_arrows()
	if (print_only) {
		printf "%s", text
		exit
	}

	failed = 0
	if (text_in_document() !~ "^$" && text_in_document() != text)
		complain("HACKING.md has other arrows; this puts them there: tests/arrows.sh --write")
	# Here, because awk sees nothing else of an empty file.
	for (i = 1; i < ARGC; i++) {
		file = substr(ARGV[i], 3)
		is_there[module_of(file)] = 1
		if (!(folder_of(file) in allowed))
			complain(file ": the folder " folder_of(file) " is not in the list of " list)
	}
}

# Reads the folders in the order of the list.
function read_order(    line)
{
	while ((getline line < list) > 0)
		for (; line !~ "^foreign" && match(line, /allowed\["[^"]+"\] =/); line = substr(line, RSTART + RLENGTH))
			order[++folders] = substr(line, RSTART + 9, RLENGTH - 13)
	close(list)
}

# All that the folders of a component may include outside of it. A pattern covers its folders, and a
# folder its headers.
function targets_of(component,    targets, count, i, j, all, names, target, text)
{
	for (i = 1; i <= folders; i++) {
		split("", targets)
		if (component_of(order[i]) == component)
			split(allowed[order[i]], targets, " ")
		for (j = 1; j in targets; j++)
			if (component_of(targets[j]) != component && !(targets[j] in all)) {
				all[targets[j]] = 1
				names[++count] = targets[j]
			}
	}
	for (i = 1; i <= count; i++) {
		target = names[i]
		if (target ~ "/[*]$" ||
		    (!((component_of(target) "/*") in all) && !(target ~ "[.]h$" && folder_of(target) in all)))
			text = text " " target
	}
	return text == "" ? " nothing" : text
}

# The layer of a folder in its component: above all that it includes there. 0 is the lowest one.
function layer_of(folder,    targets, count, i, below)
{
	if (folder in layer)
		return layer[folder]
	layer[folder] = 0 # ends the walk if the list has a circle
	count = split(allowed[folder], targets, " ")
	for (i = 1; i <= count; i++)
		if (targets[i] in allowed && component_of(targets[i]) == component_of(folder)) {
			below = layer_of(targets[i])
			if (layer[folder] <= below)
				layer[folder] = below + 1
		}
	return layer[folder]
}

# The folders of a component by layers, the highest one first.
function layers_of(component,    at, i, name, text, separator)
{
	for (at = folders; at >= 0; at--) {
		separator = text == "" ? "" : " > "
		for (i = 1; i <= folders; i++)
			if (component_of(order[i]) == component && layer_of(order[i]) == at) {
				name = order[i]
				sub("^" component "/", "", name)
				text = text separator name
				separator = " "
			}
	}
	return text
}

# A line for each component, and a second one if it has several folders.
function text_of_arrows(    i, component, done, layers, text)
{
	read_order()
	for (i = 1; i <= folders; i++) {
		component = component_of(order[i])
		if (component in done)
			continue
		done[component] = 1
		layers = layers_of(component)
		text = text sprintf("    %-9s ->%s\n", component, targets_of(component))
		if (layers ~ " ")
			text = text "        " layers "\n"
	}
	return text
}

function text_in_document(    line, inside, text)
{
	while ((getline line < "HACKING.md") > 0)
		if (line ~ /^<!-- arrows/)
			inside = 1
		else if (line ~ /^<!-- end/)
			inside = 0
		else if (inside)
			text = text line "\n"
	close("HACKING.md")
	return text
}

function complain(text)
{
	print text
	failed = 1
}

function component_of(path)
{
	sub("/.*", "", path)
	return path
}

# Tests may include everything, so their folders need no arrows.
function folder_of(path)
{
	if (path ~ "^tests/")
		return "tests"
	sub("/[^/]*$", "", path)
	return path
}

# A header and the file that implements it.
function module_of(path)
{
	sub("[.][ch]$", "", path)
	return path
}

# Whether the folder may include this path.
function fits(include,    targets, count, i)
{
	count = split(folder " " allowed[folder], targets, " ")
	for (i = 1; i <= count; i++)
		if (include == targets[i] || folder_of(include) == targets[i] ||
		    (sub("/[*]$", "", targets[i]) && component_of(include) == targets[i]))
			return 1
	return 0
}

FNR == 1 {
	file = substr(FILENAME, 3)
	folder = folder_of(file)
	component = component_of(file)
	libraries = folder in foreign ? foreign[folder] : component in foreign ? foreign[component] : "glib|gio|gnutls"
}

!(folder in allowed) || !/^[ \t]*#[ \t]*include[ \t]*["<]/ { next }

{
	include = $0
	sub(/^[ \t]*#[ \t]*include[ \t]*/, "", include)
}

include ~ "^<(" libraries ")" { complain(file ":" FNR ": " $0 "\n" file ": " component_of(file) " must not know that library") }

include ~ /^"[^"]+"/ {
	sub(/^"/, "", include)
	sub(/".*/, "", include)
	if (include !~ "/")
		complain(file ": \"" include "\" is not a path from the top of the tree")
	else if (!fits(include))
		complain(file ": " folder " must not include \"" include "\"")
	if (module_of(include) != module_of(file))
		includes[module_of(file), module_of(include)] = 1
}

# Whether all files that the module includes, or all that include it, are already cleared: then no
# circle leads through it.
function has_end(module,    pair, ends, into, out)
{
	for (pair in includes) {
		split(pair, ends, SUBSEP)
		out = out || (ends[1] == module && ends[2] in is_there)
		into = into || (ends[2] == module && ends[1] in is_there)
	}
	return !into || !out
}

function find_circles(    module, more)
{
	do {
		more = 0
		for (module in is_there)
			if (has_end(module)) {
				delete is_there[module]
				more = 1
			}
	} while (more)
	for (module in is_there)
		complain(module ": is in a circle of files that include each other, or between two circles")
}

END {
	find_circles()
	exit failed
}
' $files
