#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At SIGHUP, the server looks at its images again, and the log says what became of them: a path that
# leads to another file, a file that was deleted or moved away, a file that can't be written to any
# more. A client that connects finds that, too. What is over is told as well. An image that can be
# written to now becomes writable as soon as nobody uses it.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
for name in made-again moved link-target second; do
	truncate -s 1M "$dir/$name.img"
done
ln -s link-target.img "$dir/link.img"
start_nbdloopd --export "again=$dir/made-again.img" --export "moved=$dir/moved.img" --export "link=$dir/link.img" \
	--export "second=$dir/second.img"

times_read()
{
	grep -c "the configuration was read again" "$log" || true
}

was_read() # TIMES
{
	[ "$(times_read)" -gt "$1" ]
}

hup()
{
	local before
	before=$(times_read)
	kill -HUP "$pid"
	wait_until "the configuration is read again" was_read "$before"
}

awaits_log() # REGEX
{
	wait_until "the log says: $1" grep -qE -- "$1" "$log"
}

hup
rm "$dir/made-again.img"
hup
awaits_log 'made-again\.img: it was deleted; it is still served, and its data is lost when the server ends'
truncate -s 1M "$dir/made-again.img"
mv "$dir/moved.img" "$dir/elsewhere.img"
ln -sf second.img "$dir/link.img"
hup
awaits_log 'made-again\.img: another file has this name now; the one that was opened is still served'
awaits_log 'link\.img: another file has this name now'
awaits_log 'moved\.img: nothing has this name any more'
reject_log '/second\.img: .*(name|deleted)'
mv "$dir/elsewhere.img" "$dir/moved.img"
"$python" - "nbd+unix:///moved?socket=$sock" <<'EOF'
import sys
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"x" * 512, 0)
EOF
expect_log 'moved\.img: no longer true: nothing has this name'
stop_server

[ "$(id -u)" = 0 ] || exit 0
# ---- writes that fail, and work again
image=$dir/second.img
chattr +i "$image" 2>"$dir/chattr.log" || skip "no immutable files here: $(cat "$dir/chattr.log")"
on_exit chattr -i "$image"
start_nbdloopd "$image"
expect_log 'second\.img: .*, read-only \(it is immutable'
cat >"$dir/client.py" <<'EOF'
import os, signal, sys, time
import nbd
from waiting import wait_until

uri, pid, log = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def says(text):
    with open(log) as lines:
        return text in lines.read()


h = nbd.NBD()
h.connect_uri(uri)
assert h.is_read_only()
os.system(f"chattr -i {sys.argv[4]}")
os.kill(pid, signal.SIGHUP)
wait_until("a line in the log", lambda: says("is opened again at a SIGHUP when it has neither clients nor snapshots"))
assert h.pread(512, 0) == bytes(512)
h.shutdown()
EOF
"$python" "$dir/client.py" "$uri" "$pid" "$log" "$image"

# Until the server has seen that the client has gone.
is_opened_again()
{
	hup
	poll_for 1 grep -q "its image can be written to now, and is opened again$" "$log"
}
wait_until "the image is opened again" is_opened_again
awaits_log 'second\.img: .*, writable'
writes()
{
	"$python" -c 'import nbd, sys; h = nbd.NBD(); h.connect_uri(sys.argv[1]); assert not h.is_read_only(); h.pwrite(b"x" * 512, 0)' "$uri"
}
writes || fail "the image can't be written to"
chattr +i "$image"
hup
awaits_log 'warning: .*second\.img: writes fail, because it is immutable; chattr -i ends that'
chattr -i "$image"
hup
awaits_log 'second\.img: no longer true: writes fail, because it is immutable'
stop_server

# ---- swap space
fallocate -l 1M "$image" # without holes
chmod 600 "$image"
quietly mkswap "$image"
start_nbdloopd "$image"
swapon "$image" 2>"$dir/swapon.log" || skip "no swap file can be used here: $(cat "$dir/swapon.log")"
on_exit sh -c "swapoff '$image' 2>/dev/null || true"
hup
awaits_log 'warning: .*second\.img: writes fail, because it is swap space; swapoff ends that'
swapoff "$image"
stop_server
