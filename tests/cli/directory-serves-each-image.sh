#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With dir=, every regular file of the directory is the export of its name, listed and served; no name
# and no link leads out of the directory.
. "$(dirname "$0")/../lib/functions.sh"

require nbdinfo nbdcopy
images=$dir/images
mkdir -p "$images/below"
head -c 1M /dev/urandom >"$images/one.img"
head -c 2M /dev/urandom >"$images/two words.img"
head -c 1M /dev/urandom >"$images/below/inner"
head -c 1M /dev/urandom >"$dir/secret"
ln -s ../secret "$images/relative"
ln -s "$dir/secret" "$images/absolute"
ln -s one.img "$images/inside"
mkfifo "$images/fifo"

export_uri() # NAME, percent-encoded
{
	echo "nbd+unix:///$1?socket=$sock"
}

serves_each()
{
	start_server -r -- dir="$images" engine="$engine" control="$dir/control"
	listed=$(nbdinfo --list --json "$uri" | "$python" -c '
import json, sys
print(*sorted(e["export-name"] for e in json.load(sys.stdin)["exports"]), sep="|")')
	expect_equal "exports" "inside|one.img|two words.img" "$listed"
	for name in one.img "two words.img" inside; do
		rm -f "$dir/seen"
		quietly nbdcopy "$(export_uri "${name// /%20}")" "$dir/seen"
		quietly cmp "$images/$name" "$dir/seen"
	done
	for name in ../secret %2e%2e/secret ..%2fsecret below/inner below relative absolute fifo . .. missing; do
		must_fail nbdinfo --size "$(export_uri "$name")"
	done
	must_fail nbdinfo --size "$(export_uri "/${dir//\//%2f}%2fsecret")"
	stop_server
}

each_engine serves_each
