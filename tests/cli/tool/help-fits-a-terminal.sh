#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No line of --help is longer than 100 columns, but the name of an option with all its choices; none
# says its default twice.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
fits() # COMMAND...
{
	"$@" >"$dir/help" || fail "$* fails"
	! grep -vE '^ *(-[A-Za-z], )?--[a-z-]+=[a-z0-9|-]+$' "$dir/help" | grep -E '.{101}' || fail "these lines of $* are too long"
	! grep -E '\(default: ([^)]*)\) \(default: ' "$dir/help" || fail "$* says this default twice"
}

fits nbdloopd --help
fits nbdkit loop --help
fits nbdloop --help
for verb in $(nbdloop --help | sed -n 's/^    \([a-z][a-z-]*\)  .*/\1/p'); do
	fits nbdloop "$verb" --help
done
