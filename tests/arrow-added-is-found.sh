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
try common/log.c '#include "engine/image_config.h"' 'common/log.c: common must not include "engine/image_config.h"'
try control/answer.c '# include "engine/image/image.h"' 'control/answer.c: control must not include "engine/image/image.h"'
try nbd/export.c '#include "engine/image_config.h"' 'nbd/export.c: nbd must not include "engine/image_config.h"'
try engine/image_config.c '#include "control/answer.h"' 'engine/image_config.c: engine must not include "control/answer.h"'
try engine/io/io.c '#include "engine/image/window.h"' 'engine/io/io.c: engine/io must not include "engine/image/window.h"'
try engine/io/io.c '#include "engine/io/chunk_plan.h"' 'engine/io/io: is in a circle of files'
try engine/io/io.c '#include "nbd/reply.h"' 'engine/io/io.c: engine/io must not include "nbd/reply.h"'
try engine/backing/backing.c '#include "engine/io/io.h"' 'engine/backing/backing.c: engine/backing must not include "engine/io/io.h"'
try nbd/reply.c '#include "engine/io/io.h"' 'nbd/reply.c: nbd must not include "engine/io/io.h"'
try nbd/reply.c '#include <sys/socket.h>' 'nbd/reply.c: nbd must not know that library'
try engine/image_config.c '#include "config.h"' 'is not a path from the top'
try engine/image_config.c '#include <glib.h>' 'engine/image_config.c: engine must not know that library'
try server/daemon/server.c '#include "server/connection/conn.h"' ''
try server/connection/conn.c '#include "server/exports/exports.h"' 'server/connection/conn.c: server/connection must not include "server/exports/exports.h"'
try server/loop/loop.c '#include "server/connection/conn.h"' 'server/loop/loop.c: server/loop must not include "server/connection/conn.h"'
try server/daemon/nbdloopd.c '#include "tool/verb/verb.h"' 'server/daemon/nbdloopd.c: server/daemon must not include "tool/verb/verb.h"'
try tool/attach/attach_options.c '#include "engine/image_config.h"' ''
try tool/device/device.c '#include "tool/guard/guard.h"' 'tool/device/device.c: tool/device must not include "tool/guard/guard.h"'
try tool/verb/attach.c '#include "engine/image/image.h"' 'tool/verb/attach.c: tool/verb must not include "engine/image/image.h"'
try tool/nbdloop.c '#include "control/answer.h"' 'tool/nbdloop.c: tool must not include "control/answer.h"'
try tool/nbdloop.c '#include <liburing.h>' 'tool/nbdloop.c: tool must not know that library'
try engine/image_config.h '#include <libnbd.h>' 'engine/image_config.h: engine must not know that library'
