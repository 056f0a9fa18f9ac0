#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two connections are busy on two event loops, with one image or with one each: no cache line is
# written by both loops more often than once in 100 requests, nor read that often by one loop after
# the other has written it.
#
# Where the two connections write anywhere in one file, their granules may have the same count, or
# counts in one line (engine/io/range.h). Where they can't, and with two files, the limit applies to
# all lines together.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require addr2line nm
requests=10000
unseen='pthread_(rwlock|spin|barrier)|pthread_.*_(timed|clock)lock|pthread_cond_clockwait|sem_|mtx_|cnd_'

# This nbdloopd is built so that accesses to memory are counted: see lib/shared_lines.c.
build()
{
	local part name compile files libraries link=() source=${top_srcdir:-$lib/../..} left_out='*/tls/unavailable.c' left_out_too='*/http/unavailable.c'
	# As nbd/Makefile.am and server/Makefile.am do.
	[ -n "${GNUTLS_LIBS-}" ] || left_out='*/tls/[!u]*.c'
	grep -q '^#define HAVE_MICROHTTPD' "$top_builddir/config.h" || left_out_too='*/http/http*.c'
	# A build with a sanitizer has no filters of system calls.
	local no_filters='*/sandbox/call_*.c'
	read -ra compile <<<"${CC:-cc} -std=gnu11 -pthread -D_GNU_SOURCE -U_FORTIFY_SOURCE -O1 -g ${LIBURING_CFLAGS-} ${GNUTLS_CFLAGS-}"
	for name in memcpy memmove memset; do
		compile+=("-fno-builtin-$name")
		link+=("-Wl,--wrap=$name")
	done
	for name in mutex_lock mutex_trylock mutex_unlock cond_wait cond_timedwait cond_signal cond_broadcast; do
		link+=("-Wl,--wrap=pthread_$name")
	done
	for part in common control nbd engine server; do
		mkdir "$dir/$part"
		mapfile -t files < <(find "$source/$part" -name '*.c' ! -path "$left_out" ! -path "$left_out_too" ! -path "$no_filters" ! -path '*/engine/backing/ceph/module/*' ! -path '*/engine/backing/http/fetch/*')
		(cd "$dir/$part" && "${compile[@]}" -fsanitize=thread -DMODULE_DIRECTORY='""' -DEXAMPLE_CONFIGURATION='""' -I"$source" -I"$top_builddir" \
			-include "$top_builddir/config.h" -c "${files[@]}")
	done
	"${compile[@]}" -Wall -Wextra -Werror -c -o "$dir/shared_lines.o" "$lib/shared_lines.c"
	# Link at the addresses that addr2line knows.
	read -ra libraries <<<"${LIBURING_LIBS--luring} ${GNUTLS_LIBS-}"
	"${compile[@]}" -no-pie "${link[@]}" -o "$dir/nbdloopd" "$dir"/*/*.o "$dir/shared_lines.o" "${libraries[@]}"
	nm -u "$dir/nbdloopd" >"$dir/nm.txt"
	! grep -E " ($unseen)" "$dir/nm.txt" >&2 || fail "lib/shared_lines.c does not see what these write"
}

# WHERE: "apart" (no two granules have the same count), "anywhere"; "total": see
# lib/shared_lines.py.
loops_share_no_line() # IMAGES WHERE [total]
{
	local images=$1 where=$2
	rm -f "$dir"/*.img
	truncate -s 64M "$dir/0.img" "$dir/1.img"
	start_nbdloopd --threads=2 --export "0=$dir/0.img,engine=$engine" --export "1=$dir/1.img,engine=$engine"
	"$python" "$own_python" "$pid" "$requests" "$where" "nbd+unix:///0?socket=$sock" \
		"nbd+unix:///$((images - 1))?socket=$sock" >"$dir/client.log" 2>&1 || fail "the client failed"
	stop_server
	"$python" "$lib/shared_lines.py" "$dir/nbdloopd" "$SHARED_LINES" worker/worker.c:worker_main "$requests" "${@:3}" \
		>"$dir/lines.log" || fail "engine $engine, $images images, $where"
	mv "$dir/lines.log" "$dir/$engine-$images-$where.txt"
}

every_way()
{
	loops_share_no_line 1 apart total
	loops_share_no_line 1 anywhere
	loops_share_no_line 2 anywhere total
}

build
export PATH=$dir:$PATH SHARED_LINES=$dir/lines
each_engine every_way
