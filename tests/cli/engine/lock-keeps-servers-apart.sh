#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two servers of one image may both read it, but only one of them may write, unless both use
# lock=shared.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo qemu-io
image=$dir/disk.img
truncate -s 16M "$image"

# The functions take a server's options: first() starts the first server, the others expect what
# must become of the second one.
first() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	server=first start_server "$@"
	server=first connect_here
}

connect_here()
{
	server_files
	connect_once
}

second_refused() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	server=second refuse_start "$@"
	log=$dir/second.log expect_log 'disk\.img.*lock'
	log=$dir/second.log expect_log 'lock=off'
}

# nbdkit tells a plugin only when a client connects whether -r was given: a server that would be in
# nobody's way if it only read therefore starts, and refuses its clients.
second_refuses_clients() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	server=second start_server "$@"
	server=second server_files
	must_fail nbdinfo --size "$uri"
	expect_log 'disk\.img.*lock'
	expect_log 'lock=off'
	server=second stop_server
}

second_serves() # [NBDKIT-OPTION...] -- [KEY=VALUE...]
{
	server=second start_server "$@"
	server=second connect_here
	server=second stop_server
}

first -- "$image"
second_refused -- "$image"
second_refused -r -- "$image"
second_refused -- "$image" lock=shared
second_serves -- "$image" lock=off
second_serves -r -- "$image" lock=off
server=first stop_server

first -r -- "$image"
second_serves -r -- "$image"
second_refuses_clients -- "$image"
second_serves -- "$image" lock=off
server=first stop_server

first -- "$image" lock=shared
second_serves -- "$image" lock=shared
second_refused -- "$image"
second_refused -r -- "$image"
server=first stop_server

# Both servers start before either has a client: then the second server refuses its client.
server=second start_server -- "$image"
first -- "$image"
server=second server_files
must_fail nbdinfo --size "$uri"
expect_log 'disk\.img.*lock'
server=first stop_server
# The refusal does not last for ever.
connect_once
server=second stop_server

second_serves -- "$image"
