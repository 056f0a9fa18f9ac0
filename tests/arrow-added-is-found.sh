#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# arrows.sh fails, and names the file, when an include is added that its list does not have.
set -eu

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir "$tree/copy"
(cd "$top_srcdir" && find common control engine nbd plugins server tool -name '*.[ch]' -print0 | tar -c --null -T -) |
	tar -x -C "$tree/copy"
chmod -R u+w "$tree/copy"

# try FILE LINE WANTED: with LINE added to FILE, arrows.sh fails and says WANTED (empty: it passes)
try()
{
	test -e "$tree/copy/$1" || { echo "there is no $1 to try it with" >&2; exit 1; }
	cp "$tree/copy/$1" "$tree/before"
	echo "$2" >>"$tree/copy/$1"
	if bash "$top_srcdir/tests/arrows.sh" "$tree/copy" >"$tree/said" 2>&1; then
		test -z "$3" || { echo "not found: $2 in $1" >&2; exit 1; }
	elif [ -z "$3" ] || ! grep -qF "$3" "$tree/said"; then
		echo "wrong answer for $2 in $1:" >&2
		cat "$tree/said" >&2
		exit 1
	fi
	cp "$tree/before" "$tree/copy/$1"
}

try common/log.c '#include "common/unit.h"' ''
try common/log.c '#include "engine/config.h"' 'common/log.c: common must not include "engine/config.h"'
try control/answer.c '# include "engine/image.h"' 'control/answer.c: control must not include "engine/image.h"'
try nbd/export.c '#include "engine/config.h"' 'nbd/export.c: nbd must not include "engine/config.h"'
try engine/config.c '#include "control/answer.h"' 'engine/config.c: engine must not include "control/answer.h"'
try engine/io.c '#include "nbd/reply.h"' 'engine/io.c: engine must not include "nbd/reply.h"'
try nbd/reply.c '#include "engine/io.h"' 'nbd/reply.c: nbd must not include "engine/io.h"'
try nbd/reply.c '#include <sys/socket.h>' 'nbd/reply.c: nbd must not know that library'
try engine/config.c '#include "config.h"' 'is not a path from the top'
try engine/config.c '#include <glib.h>' 'engine/config.c: engine must not know that library'
try tool/main.c '#include "engine/config.h"' ''
try tool/main.c '#include "engine/image.h"' 'tool/main.c: tool must not include "engine/image.h"'
try tool/main.c '#include "control/answer.h"' 'tool/main.c: tool must not include "control/answer.h"'
try server/main.c '#include "tool/verb.h"' 'server/main.c: server must not include "tool/verb.h"'
try tool/main.c '#include <liburing.h>' 'tool/main.c: tool must not know that library'
try engine/config.h '#include <libnbd.h>' 'engine/config.h: engine must not know that library'
