#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop list prints losetup's columns and JSON, with the kernel's facts from a recorded tree and
# the other facts from the control socket of a server; it finds a device by its image, and says what
# it can't find out.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
control=$dir/control
image="$dir/my disk.img"
truncate -s 10M "$image"
start_nbdloopd --control "$control" --offset=1M --sizelimit=2M --sector-size=512 "$image"
use_recorded_system
echo "nbdloop:$control" >"$NBDLOOP_SYSROOT/sys/block/nbd0/backend"

list() # WANTED-STATUS [WORD...]
{
	local wanted=$1 status=0
	shift
	nbdloop list "$@" >"$dir/said" 2>"$dir/nbdloop.log" </dev/null || status=$?
	expect_equal "status of nbdloop list $*" "$wanted" "$status"
}

said() # TEXT...
{
	printf '%s\n' "$@" >"$dir/wanted"
	diff -u "$dir/wanted" "$dir/said" >"$dir/diff.log" || fail "the list isn't what it should be"
}

said_nothing()
{
	[ ! -s "$dir/said" ] || fail "this should not be listed: $(cat "$dir/said")"
}

complained() # REGEX
{
	grep -qE -- "$1" "$dir/nbdloop.log" || fail "nothing tells: $1"
}

json() # EXPRESSION, of the array d
{
	"$python" -c 'import json, sys; d = json.load(open(sys.argv[1]))["nbddevices"]; assert eval(sys.argv[2]), d' \
		"$dir/said" "$1" 2>"$dir/check.log" || fail "wrong JSON"
}

direct=0
[ "$(control "$control" status exports.0.direct_io)" != true ] || direct=1

blank='\x20'
shown=${image// /$blank}

# ---- tables
list 0
expect_equal "default columns" "NAME SIZELIMIT OFFSET RO BACK-FILE DIO LOG-SEC" "$(head -n 1 "$dir/said" | xargs)"
list 0 --raw
said 'NAME SIZELIMIT OFFSET RO BACK-FILE DIO LOG-SEC' "/dev/nbd0 2097152 1048576 0 $shown $direct 512" \
	'/dev/nbd1   1   4096' '/dev/nbd10   0 nbd://server.example/disk  512'
list 0
mv "$dir/said" "$dir/list"
nbdloop >"$dir/said" 2>"$dir/nbdloop.log" || fail "nbdloop alone fails"
cmp -s "$dir/said" "$dir/list" || fail "nbdloop alone doesn't list, as losetup does"
list 0 -n --raw -O name,ro,backend /dev/nbd10 nbd0
said '/dev/nbd10 0 nbd://server.example/disk' "/dev/nbd0 0 nbdloop:$control"
list 0 -nO NAME
said /dev/nbd0 /dev/nbd1 /dev/nbd10
list 0 --noheadings --raw -O +SERVER,SERVER-PID nbd0
said "/dev/nbd0 2097152 1048576 0 $shown $direct 512 nbdloopd $pid"

# ---- JSON
list 0 --json --output-all
json 'len(d) == 3 and [e["name"] for e in d] == ["/dev/nbd0", "/dev/nbd1", "/dev/nbd10"]'
json "d[0][\"back-file\"] == \"$image\" and d[0][\"server-pid\"] == $pid and d[0][\"pid\"] == 812"
json "(d[0][\"back-ino\"], d[0][\"back-maj:min\"]) == ($(stat -c %i "$image"), \"$(stat -c %Hd:%Ld "$image")\")"
json '(d[0]["offset"], d[0]["sizelimit"], d[0]["log-sec"], d[0]["size"]) == (1 << 20, 2 << 20, 512, 64 << 20)'
json '(d[0]["server"], d[0]["connections"], d[0]["poll"]) == ("nbdloopd", 0, False)'
json "d[0][\"dio\"] is bool($direct) and d[0][\"ro\"] is False and d[1][\"ro\"] is True and d[0][\"partscan\"] is True"
json 'd[0]["engine"] in ("io_uring", "aio", "threads") and d[0]["maj:min"] == "43:0"'
json 'all(d[1][key] is None for key in ("back-file", "back-ino", "offset", "dio", "server", "backend", "connections"))'
json 'd[2]["back-file"] == d[2]["backend"] == "nbd://server.example/disk" and d[2]["server"] == "remote"'
list 0 -J nbd1
json 'set(d[0]) == {"name", "sizelimit", "offset", "ro", "back-file", "dio", "log-sec"}'

# ---- attaching to a device that is taken first of all says what the device is used for
refuses_attach() # REGEX WORD...
{
	local wanted=$1 status=0
	shift
	nbdloop attach "$@" >"$dir/said" 2>"$dir/nbdloop.log" </dev/null || status=$?
	expect_equal "status of nbdloop attach $*" 1 "$status"
	expect_equal "lines of nbdloop attach $*" 1 "$(wc -l <"$dir/nbdloop.log")"
	complained "$wanted"
}
refuses_attach "^nbdloop: /dev/nbd0 is attached already, to $image; detach it first" "$image" nbd0
refuses_attach "^nbdloop: /dev/nbd1 is attached already, by process 830; detach it first" "$image" /dev/nbd1
refuses_attach "^nbdloop: /dev/nbd10 is attached already, by process 901, to nbd://server.example/disk; " "$image" nbd10
refuses_attach "another part of it, which overlaps, is attached already, as /dev/nbd0; detach that$" -L "$image"

# ---- finding a device by its image
ln "$image" "$dir/link"
ln -s link "$dir/symlink"
for name in "$image" "$dir/link" "$dir/symlink"; do
	list 0 -n -O NAME --associated "$name"
	said /dev/nbd0
done
list 0 -n -O NAME -j nbd://server.example/disk
said /dev/nbd10
cp "$image" "$dir/other.img"
for name in "$dir/other.img" "$dir/none" nbd://server.example/other; do
	list 0 -j "$name"
	said_nothing
	list 0 --json -j "$name"
	json 'd == []'
done
list 0 -n -O NAME -j "$image" -o 1M
said /dev/nbd0
list 0 -n -O NAME -j "$image" --offset 0
said_nothing

# ---- the process that attached the device, while it still exists
mkdir -p "$NBDLOOP_SYSROOT/proc/830/fd"
echo qemu-nbd >"$NBDLOOP_SYSROOT/proc/830/comm"
ln -s /dev/nbd1 "$NBDLOOP_SYSROOT/proc/830/fd/9"
list 0 -n -O SERVER,PID nbd1
said 'qemu-nbd 830'

# ---- an image that was renamed, removed, or whose name another file has now: as losetup shows it
mv "$image" "$dir/renamed.img"
back_file() # WANTED
{
	list 0 --json -O BACK-FILE nbd0
	json "d[0][\"back-file\"] == \"$1\""
}
rm "$dir/link"
back_file "$dir/renamed.img"
cp "$dir/other.img" "$image"
back_file "$dir/renamed.img"
rm "$image"
ln "$dir/renamed.img" "$dir/kept.img"
rm "$dir/renamed.img"
back_file "$dir/renamed.img (deleted)"
mv "$dir/kept.img" "$image"
back_file "$image"

# ---- a guard that is alive, and one that was killed
cat >"$dir/guard.py" <<'EOF2'
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(1000)
EOF2
server_pid=$pid
spawn guard "$python" "$dir/guard.py" "$control.plan"
guard=$pid pid=$server_pid
wait_until "there is a guard" grep -q locked "$dir/guard.log"
list 0 -n --raw -O NAME,GUARD
said "/dev/nbd0 $guard" '/dev/nbd1 ' '/dev/nbd10 '
[ ! -s "$dir/nbdloop.log" ] || fail "a warning, though all is well: $(cat "$dir/nbdloop.log")"
end_process guard KILL
list 0 -J -O GUARD nbd0
json 'd[0]["guard"] == 0'
list 0 -n -O NAME
complained "^nbdloop: warning: /dev/nbd0: its guard was killed, and nothing would restart its server: nbdloop adopt /dev/nbd0$"
expect_equal "warnings" 1 "$(wc -l <"$dir/nbdloop.log")"
nbdloop status nbd0 >"$dir/said" 2>"$dir/nbdloop.log" || fail "nbdloop status fails"
grep -q "^guard: none: .*nothing would restart its server" "$dir/said" || fail "status doesn't tell that there is no guard"

# ---- wrong arguments
list 1 /dev/nbd2 nbd0 -nO NAME
said /dev/nbd0
complained "^nbdloop: /dev/nbd2 is not attached$"
list 1 /dev/nbd7
complained '^nbdloop: there is no device /dev/nbd7; '
list 1 /dev/vda
complained '^nbdloop: /dev/vda is no device of the nbd driver'
list 2 -O NAME,COLOUR
complained '^nbdloop: unknown column: COLOUR;'
list 2 --offset 1M
complained '^nbdloop: --offset is for --associated only'
list 2 --offset much -j "$image"
complained '^nbdloop: --offset=much: must be a size'
list 2 --colour
complained '^nbdloop: unknown or ambiguous option --colour;'

# ---- a server that hangs, and one that has gone
stopped()
{
	! grep -h '^State:' "/proc/$pid/task/"*/status | grep -v 'T (stopped)' >/dev/null
}
kill -STOP "$pid"
wait_until "all threads of the server are stopped" stopped
list 0 -n --raw -O NAME,BACK-FILE,SIZE nbd0
kill -CONT "$pid"
said "/dev/nbd0  67108864"
complained "^nbdloop: warning: /dev/nbd0: $control: the server doesn't answer: it took too long$"
stop_server
list 0 -n --raw -O NAME,BACK-FILE,SIZE,SERVER nbd0
said "/dev/nbd0  67108864 "
complained "^nbdloop: warning: /dev/nbd0: its server and its guard are gone, and requests wait: the first "
[ "$(id -u)" != 0 ] || echo '{"place": "", "dead-timeout": 600}' >"$control.plan"
mkdir "$NBDLOOP_SYSROOT/dev"
lost() # SECONDS-AGO
{
	echo "3,1,$("$python" -c "import time; print(int((time.monotonic() - $1) * 1e6))"),-;block nbd0: Receive control failed (result -32)"
}
lost 100 >"$NBDLOOP_SYSROOT/dev/kmsg"
list 0 -n -O NAME nbd0
if [ "$(id -u)" = 0 ]; then
	complained "are gone, and requests wait: none fails within the next (49[0-9]|500) seconds \(--dead-timeout\).  nbdloop adopt"
fi
! grep -q 'requests fail\.' "$dir/nbdloop.log" || fail "a false alarm"
lost 601 >"$NBDLOOP_SYSROOT/dev/kmsg"
list 0 -n -O NAME nbd0
complained "are gone, and requests wait: the first that has waited for --dead-timeout fails"
echo "4,2,9,-;block nbd0: shutting down sockets" >>"$NBDLOOP_SYSROOT/dev/kmsg"
list 0 -n -O NAME nbd0
complained "are gone, and requests fail\.  nbdloop adopt"
nbdloop status nbd0 >"$dir/said" 2>"$dir/nbdloop.log" || fail "nbdloop status fails"
expect_equal "how often status tells it" 1 "$(grep -c 'its server and its guard are gone' "$dir/said" "$dir/nbdloop.log" | awk -F: '{n += $2} END {print n}')"
rm "$control.plan"
list 0 nbd0
complained "^nbdloop: warning: /dev/nbd0: $control: the server can't be connected to: "

# ---- nothing attached, and no driver
for device in nbd0 nbd1 nbd10; do
	rm "$NBDLOOP_SYSROOT/sys/block/$device/pid"
done
list 0
said_nothing
list 0 --json
json 'd == []'
rm -r "$NBDLOOP_SYSROOT"/sys/block/nbd*
list 0
said_nothing
