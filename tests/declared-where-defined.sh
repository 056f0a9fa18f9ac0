#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A function that X.h declares is defined in X.c, and no files call each other in a circle.  The
# list below is of exceptions; an entry that is no longer needed fails the test.
set -eu

command -v python3 >/dev/null || { echo "declared-where-defined.sh: skipped: python3 is not installed" >&2; exit 77; }
exec python3 "$top_srcdir/tests/declared-where-defined.py" "$top_srcdir" "$top_builddir" >&2 <<'END'
# NBDKIT_REGISTER_PLUGIN() defines it, and no header of nbdkit declares it.
plugins/loop/nbdkit_api.h: plugin_init
END
