#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop and nbdloopd need only the libraries that each start uses: each further one, with those
# that it needs itself, makes every start slower. GnuTLS, for one, is loaded when TLS is used.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require readelf
# The C library under its names, and the runtimes of compilers.
always='libc|libm|libdl|libpthread|ld-linux[a-z0-9-]*|libgcc_s|libatomic'
always+='|lib(a|ub|t|l)san|libclang_rt[a-z._-]*'

needs_only() # PROGRAM LIBRARIES
{
	local more
	more=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -vE "^($always|$2)[.-]" || true)
	[ -z "$more" ] || fail "${1##*/} needs more libraries:" $more
}

needs_only "$top_builddir/tool/nbdloop" 'libglib|libjansson'
needs_only "$top_builddir/server/nbdloopd" 'liburing|libseccomp'
