#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An nbdloopd that is started with descriptors 0, 1 and 2 closed doesn't use these numbers for an
# image, into which it would then write its messages; neither does the tool. (nbdkit refuses to
# start so.)
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
sock=$dir/server.sock uri=nbd+unix:///?socket=$dir/server.sock

# Runs a command without these descriptors.
without()
{
	bash -c '"$@" <&- >&- 2>&-' - "$@"
}

dd if=/dev/urandom of="$image" bs=1M count=4 status=none
cp "$image" "$dir/before"
without nbdloopd -U "$sock" -P "$dir/server.pid" "$image" &
wait_until "the server listens" test -s "$dir/server.pid"
number=$(cat "$dir/server.pid")
on_exit eval "kill -KILL $number 2>/dev/null || true"
for fd in 0 1 2; do
	! readlink "/proc/$number/fd/$fd" | grep disk.img >/dev/null || fail "descriptor $fd is the image"
done
# The server writes a message to the log.
must_fail nbdinfo "nbd+unix:///nothing-of-this-name?socket=$sock"
expect_equal "size that clients see" 4194304 "$(nbdinfo --size "$uri")"
kill "$number"
wait_until "the server ends" process_gone "$number"
cmp "$image" "$dir/before" || fail "the server wrote into the image"

require_nbdloop
# Where there is no /dev/null, as in some containers, programs with these descriptors run.
if unshare -m true 2>/dev/null; then
	for program in nbdloop nbdloopd; do
		unshare -m sh -c 'mount -t tmpfs tmpfs /dev && exec "$@"' - "$top_builddir/wrapper/$program" --version >"$dir/version" 2>&1 ||
			fail "$program does not run without /dev/null"
	done
fi
status=0
without nbdloop attach --no-such-option "$image" || status=$?
expect_equal "status of a wrong command line" 2 "$status"
cmp "$image" "$dir/before" || fail "the tool wrote into the image"
