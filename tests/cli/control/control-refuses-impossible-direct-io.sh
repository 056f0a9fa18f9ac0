#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The control socket refuses to switch direct I/O on where the alignment rule forbids it, and the
# answer says why; other invalid requests get an answer too.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo
image=$dir/disk.img
socket=$dir/control
truncate -s 16M "$image"

refused() # REQUEST REGEX...
{
	local request=$1 answer
	shift
	answer=$(control "$socket" "$request" error) || fail "no error for '$request'"
	for regex; do
		grep -qE "$regex" <<<"$answer" || fail "the error for '$request' lacks '$regex': $answer"
	done
}

start_server -- "$image" offset=100 control="$socket"
connect_once
expect_log 'disk\.img: .*direct I/O off \(.*offset=100.*\)'
refused 'set direct-io=on' 'disk\.img' 'offset=100'
expect_equal direct_io false "$(control "$socket" status exports.0.direct_io)"
expect_equal direct_io false "$(control "$socket" 'set direct-io=off' direct_io)"

refused 'set direct-io=maybe' 'on' 'off'
refused 'set colour=blue' 'direct-io'
refused 'stop' 'status' 'set' 'resize'
refused '' 'status'
refused 'resize export=other' 'other'
# What only nbdloopd can do: the plugin says so, and does not pretend.
refused 'add other=/nowhere' 'neither add nor remove exports'
refused 'set allow=uid:0' 'nbdkit-ip-filter'
refused 'disconnect any' 'nbdkit-ip-filter'
refused "$(printf '%05000d' 0)" '.'
# The server still works after the refused requests.
expect_equal size 16777116 "$(control "$socket" status exports.0.size)"
expect_equal size 16777116 "$(nbdinfo --size "$uri")"
stop_server
