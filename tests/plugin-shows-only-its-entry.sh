#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The plugin shares nbdkit's process with other libraries: the only symbols that it defines there
# are nbdkit's entry point and its own debug flags.
set -eu

symbols=$(nm --dynamic --defined-only --format=posix "$LOOP_PLUGIN" | awk '{ print $1 }')
grep -qx plugin_init <<<"$symbols" || {
	echo "no plugin_init in $LOOP_PLUGIN" >&2
	exit 1
}
others=$(grep -vxE 'plugin_init|loop_debug_[a-z_]+|(__odr_asan\.|__asan_|__ubsan_).*|_init|_fini|__bss_start|_edata|_end' <<<"$symbols" || true)
if [ -n "$others" ]; then
	echo "the plugin also defines:" $others >&2
	exit 1
fi
