#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd serves several exports, from the command line and from a configuration file, each with
# its own options; the list of exports can be turned off; the default export is the one without a
# name, or the only one.
. "$(dirname "$0")/../../../lib/functions.sh"

truncate -s 1M "$dir/one.img"
truncate -s 2M "$dir/two.img"
truncate -s 3M "$dir/three, and a comma.img"

at() # EXPORT
{
	echo "nbd+unix:///$1?socket=$sock"
}

size_is() # EXPORT SIZE
{
	expect_equal "size of the export $1" "$2" "$(nbdinfo --size "$(at "$1")" 2>"$dir/nbdinfo.log")"
}

is_unknown() # EXPORT
{
	nbdinfo --size "$(at "$1")" >"$dir/nbdinfo.log" 2>&1 && fail "there is an export $1"
	return 0
}

tells() # EXPORT REGEX
{
	nbdinfo "$(at "$1")" >"$dir/nbdinfo.log" 2>&1 || fail "nbdinfo fails for the export $1"
	grep -qE "$2" "$dir/nbdinfo.log" || fail "nbdinfo of the export $1 doesn't tell: $2"
}

names()
{
	nbdinfo --list "$(at "")" 2>"$dir/nbdinfo.log" | sed -n 's/^export="\(.*\)":$/\1/p' | paste -sd ' '
}

# One image, without a name.
start_nbdloopd "$dir/one.img"
size_is "" 1048576
is_unknown one
expect_equal names "" "$(names)"
stop_server

# One image, with a name: it is the default as well.
start_nbdloopd --export "one=$dir/one.img"
size_is one 1048576
size_is "" 1048576
stop_server

# Several images, with their own options and common ones.
start_nbdloopd --sector-size=1024 --description common \
	--export "one=$dir/one.img,description=the first,,of two,offset=512k,sector-size=2048" \
	--export "three=$dir/three,, and a comma.img,read-only=on" "$dir/two.img"
expect_equal names " one three" "$(names)"
size_is one 524288
size_is three 3145728
size_is "" 2097152
tells one 'description: the first,of two'
tells one 'block_size_minimum: 2048'
tells one 'is_read_only: false'
tells three 'is_read_only: true'
tells three 'description: common'
tells three 'block_size_minimum: 1024'
stop_server

# The list is off: a client that knows a name can still use it.
start_nbdloopd --list=off --export "one=$dir/one.img" --export "two=$dir/two.img"
expect_equal names "" "$(names)"
size_is two 2097152
is_unknown ""
stop_server

# Exports from a file; the command line takes precedence.
cat >"$dir/conf" <<CONF
# A comment.
[server]
threads = 1
sector-size = 1024
discard=off

[export one]
file = $dir/one.img
description = a = b, c   
	read-only = on

[export  with blanks ]
file = $dir/two.img
sector-size = 4096
[export]
file=$dir/three, and a comma.img
CONF
start_nbdloopd --config "$dir/conf" --sector-size 512 --control "$dir/control"
expect_equal names "one with blanks " "$(names)"
tells one 'description: a = b, c$'
tells one 'is_read_only: true'
tells one 'block_size_minimum: 512'
tells with%20blanks 'block_size_minimum: 4096'
tells with%20blanks 'can_trim: false'
size_is "" 3145728
expect_equal threads 1 "$(control "$dir/control" status threads)"
stop_server

# Two exports intentionally use one image.
start_nbdloopd --lock=shared --export "one=$dir/one.img" --export "half=$dir/one.img,sizelimit=512k"
size_is one 1048576
size_is half 524288
stop_server
