#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With dir=, every regular file of the directory is listed and served as the export of its name; no
# name and no link leads out of the directory.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo nbdcopy
require_python_nbd
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

# The control socket's status holds the images that have clients, and finds them by name.
control_finds_each()
{
	start_server -- dir="$images" engine="$engine" control="$dir/control"
	expect_equal exports '[]' "$(control "$dir/control" status exports)"
	spawn client "$python" -c '
import signal, sys
import nbd
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
h = nbd.NBD()
h.connect_uri(sys.argv[1])
signal.sigwait({signal.SIGTERM})
h.shutdown()' "$(export_uri "two%20words.img")"
	wait_until "the image with a client is in the status" image_shown
	expect_equal size 2097152 "$(control "$dir/control" 'resize export=two words.img' size)"
	expect_equal direct_io false \
		"$(control "$dir/control" 'set direct-io=off export=two words.img' direct_io)"
	control "$dir/control" 'resize export=one.img' error >"$dir/answer.log"
	end_process client TERM
	expect_equal "status of the client" 0 "$end_status"
	wait_until "the image without a client is out of the status" none_shown
	stop_server
}

none_shown()
{
	[ "$(control "$dir/control" status exports)" = '[]' ]
}

image_shown()
{
	[ "$(control "$dir/control" status exports.0.name 2>"$dir/answer.log")" = "two words.img" ]
}

each_engine serves_each
each_engine control_finds_each
