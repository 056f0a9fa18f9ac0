#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Comments and documents name no path, file or function that has been removed or renamed, and
# HACKING.md's map has every folder.
# names-are-there.sh [FILE...]: looks at these files in place of the tree's
set -eu

command -v python3 >/dev/null || { echo "names-are-there.sh: skipped: python3 is not installed" >&2; exit 77; }
cd "$top_srcdir"
exec python3 tests/names-are-there.py "$@"
