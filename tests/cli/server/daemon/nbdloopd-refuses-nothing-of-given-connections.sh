#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that was given its connections (--fd) is told to end under load, with both event loops:
# it answers each request either as usual or not at all, so that the program which made the
# connections, such as nbdloop for the kernel, can pass the remaining requests to the next server.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
truncate -s 64M "$image"

ends() # EVENT-LOOP COMMAND...
{
	local loop=$1
	shift
	"$python" "$own_python" "$image" "$@" >"$dir/client.log" 2>&1 || fail "the event loop on $loop refuses requests at its end"
}

ends io_uring "$top_builddir/server/nbdloopd"
ends epoll "$(lib_program forbid_syscall)" io_uring_setup=EPERM -- "$top_builddir/server/nbdloopd"
