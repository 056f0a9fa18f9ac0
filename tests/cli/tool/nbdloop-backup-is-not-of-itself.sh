#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop backup of a control socket refuses a target that is the image itself, which would get its
# old bytes back, by whatever name and socket: the only export without a name, TCP, a socket that
# another process made, and another export of the file.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
require qemu-io
truncate -s 1M "$dir/disk.img" "$dir/other.img"
quietly qemu-io -f raw -c "write -P 7 0 64k" "$dir/disk.img"
cp "$dir/disk.img" "$dir/before.img"

# The snapshot is copied to another export of the same server, but not to the image.
refuses() # TARGET [REASON]
{
	must_fail nbdloop backup --export=disk "$dir/control" "$1"
	grep -qE -- "^nbdloop: .*(${2-is the source itself})" "$dir/refused.log" || fail "nbdloop backup to $1 doesn't say it"
	expect_equal "requests that changed the image" "0 0" \
		"$(control "$dir/control" status exports.0.counters.writes) $(control "$dir/control" status exports.0.counters.zeroes)"
	quietly cmp "$dir/before.img" "$dir/disk.img"
}

# ---- by each way to the same export
port=$(free_port)
start_nbdloopd --control "$dir/control" --port "$port" --export "disk=$dir/disk.img"
refuses "nbd+unix:///disk?socket=$sock"
refuses "nbd+unix:///?socket=$sock"
refuses "nbd://127.0.0.1:$port/disk"
refuses "nbd://127.0.0.1:$port"
stop_server

# ---- by another export of the file, of which a file system that can't clone makes no snapshot
start_nbdloopd --control "$dir/control" --lock=shared --export "disk=$dir/disk.img" --export "again=$dir/disk.img"
refuses "nbd+unix:///again?socket=$sock" "is the source itself|a snapshot needs a file system that clones"
stop_server

# ---- other files, and other parts of the file, are none of the source
start_nbdloopd --control "$dir/control" --export "disk=$dir/disk.img,sizelimit=512k" \
	--export "other=$dir/other.img" --export "rest=$dir/disk.img,offset=512k"
for other in other rest; do
	quietly nbdloop backup --export=disk "$dir/control" "nbd+unix:///$other?socket=$sock"
done
quietly cmp -n 512K "$dir/disk.img" "$dir/other.img"
quietly cmp -n 512K -i 0:512K "$dir/disk.img" "$dir/disk.img"
stop_server
cp "$dir/disk.img" "$dir/before.img"

# ---- by a socket of another process, which the kernel names as the peer
cat >"$dir/activate.py" <<'END'
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
if os.fork() == 0:
    os.dup2(listening.fileno(), 3)
    os.set_inheritable(3, True)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = "1"
    os.execvp(sys.argv[2], sys.argv[2:])
os.wait()
END
server_files
spawn server "$python" "$dir/activate.py" "$dir/passed.sock" nbdloopd -P "$dir/child.pid" --control "$dir/control" \
	--export "disk=$dir/disk.img"
wait_until "the server listens" test -s "$dir/child.pid"
refuses "nbd+unix:///disk?socket=$dir/passed.sock"
kill "$(cat "$dir/child.pid")"
end_process server
