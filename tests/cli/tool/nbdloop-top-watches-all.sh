#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop top shows the rates of all devices and servers: on a terminal whose keys sort, scroll and
# end it, as text, and as JSON.  A server that hangs holds nothing up, and the terminal is as it was
# after each way to end.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require_python_nbd
require tmux
truncate -s 64M "$dir/one.img" "$dir/two.img" "$dir/three.img"

# Starts a server with a control socket; sets server_pid.
start_one() # NAME [OPTION...]
{
	local server=$1
	shift
	start_nbdloopd --control "$dir/$server.ctl" "$@" "$dir/$server.img"
	server_pid=$pid
	declare -g "${server}_pid=$pid" "${server}_uri=$uri"
}
start_one one
start_one two --iops-limit=100000,burst:5000 --connections-limit=7
start_one three
kill -STOP "$three_pid"

# A machine with three devices, of which one has a server, and two servers: the one names its socket
# on its command line, the other one in its configuration.
use_recorded_system
block=$NBDLOOP_SYSROOT/sys/block/nbd0
echo "nbdloop:$dir/one.ctl" >"$block/backend"
process=$NBDLOOP_SYSROOT/proc/4001
add_process() # ID WORD...
{
	local process=$NBDLOOP_SYSROOT/proc/$1
	shift
	mkdir -p "$process"
	echo nbdloopd >"$process/comm"
	ln -s "$dir" "$process/cwd"
	printf '%s\0' "$@" >"$process/cmdline"
}
add_process 4001 nbdloopd --config=two.conf
printf '[server]\nunix = x\n control = two.ctl \n' >"$dir/two.conf"
add_process 4002 nbdloopd --control three.ctl three.img
# The server of nbd0, which has a line already.
add_process 4003 nbdloopd --control "$dir/one.ctl" one.img
# Nothing is asked that is no server of ours.
add_process 4004 nc -U --control=other.ctl
echo nc >"$NBDLOOP_SYSROOT/proc/4004/comm"
# Nor is a server listed whose socket is gone.
add_process 4006 nbdloopd --control gone.ctl one.img

set_file() # FILE TEXT
{
	echo "$2" >"$1.new"
	mv "$1.new" "$1"
}
set_file "$block/stat" '100 0 800 50 0 0 0 0 0 500 550 0 0 0 0 0 0'
set_file "$block/inflight" '3 2'

# ---- JSON
wrote()
{
	[ "$(wc -l <"$dir/json.log")" -ge "$1" ]
}
started=$SECONDS
spawn json nbdloop top --json --delay=0.5 --count=6
wait_until "the first report" wrote 1
set_file "$block/stat" '1100 0 8800 2050 0 0 0 0 0 700 2550 0 0 0 0 10 20'
"$python" - "$two_uri" <<'EOF2' >"$dir/client.log" 2>&1 || fail "the client fails"
import sys
import nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for i in range(100):
    h.pread(8192, i * 4096)
h.pwrite(b"x" * 4096, 0)
EOF2
wait_until "the end of the reports" wrote 6
end_process json
expect_equal "status of nbdloop top --json" 0 "$end_status"
# Six reports of half a second each; the server that hangs would have taken five seconds for each.
[ $((SECONDS - started)) -lt $((15 * time_factor)) ] || fail "a server that hangs holds nbdloop top up"
"$python" "$own_python" "$dir/json.log" "$dir" "$two_pid" >"$dir/check.log" 2>&1 || fail "wrong figures: $(tail -n 1 "$dir/check.log")"

# ---- text
nbdloop top --batch --delay=1.5 -n 1 --sort=name >"$dir/text.log" || fail "nbdloop top --batch fails"
shows() # REGEX
{
	grep -qE -- "$1" "$dir/text.log" || fail "nbdloop top doesn't show: $1"
}
shows '^nbdloop top - [0-9:]{8}, every 1.5 s, 3 devices, 2 exports, 1 in trouble; by name$'
shows '^DEVICE/EXPORT +r/s +w/s +rMB/s +wMB/s +disk/s +diskMB +ms +p99 +INFL +HELD +CONN +ENGINE +TLS +IMAGE'
shows "^/dev/nbd0 +0.00 +0.00 +0.00 +0.00 +0.00 +0.00 +- +- +5 +0 +0 +(io_uring|aio|threads) +off +$dir/one.img$"
shows "^/dev/nbd10 .* nbd://server.example/disk"
shows "^$two_pid: +0.00 .* +0 +0 +0 .* $dir/two.img, iops-limit=100000,burst:5000 connections-limit=7$"
shows '^/.*  no answer'
expect_equal "order of the names" "/dev/nbd0 /dev/nbd1 /dev/nbd10" "$(sed -n 's|^\(/dev/nbd[0-9]*\) .*|\1|p' "$dir/text.log" | xargs)"
expect_equal "lines of one device" 1 "$(nbdloop top -b -d 0.1 -n 1 nbd0 | grep -c '^/dev/')"
expect_equal "lines of one socket" 1 "$(nbdloop top -b -d 0.1 -n 1 "$dir/two.ctl" | grep -c "^$two_pid:")"

# What /proc tells of a process that hangs may never come: here, a FIFO without a writer.
mkdir "$NBDLOOP_SYSROOT/proc/4005"
echo nbdloopd >"$NBDLOOP_SYSROOT/proc/4005/comm"
mkfifo "$NBDLOOP_SYSROOT/proc/4005/cmdline"
timeout $((20 * time_factor)) nbdloop top --batch -d 0.4 -n 3 >"$dir/text.log" || fail "a process that hangs holds nbdloop top up"
shows '^/dev/nbd0 .* [0-9.]+ '
shows '^still looking for servers$'
rm -r "$NBDLOOP_SYSROOT/proc/4005"

refuses() # REGEX [WORD...]
{
	local regex=$1
	shift
	must_fail nbdloop top "$@"
	grep -qE -- "$regex" "$dir/refused.log" || fail "nbdloop top $* doesn't say: $regex"
}
refuses 'no terminal: use --batch or --json$'
for delay in 0 -1 nan inf 1e9 3x ''; do
	refuses "^nbdloop: --delay=$delay: must be a number of seconds from 0.1 to 86400$" -b "--delay=$delay"
done
refuses '^nbdloop: --sort=size: must be one of name, iops, ' -b --sort=size
refuses '^nbdloop: --count=x: must be ' -b --count=x
refuses '^nbdloop: /dev/nbd2 is not attached$' -b nbd2
refuses '^nbdloop: ' -b "$dir/one.img"
! nbdloop top -b -d 0.1 -n 1 nbd0 >/dev/full 2>"$dir/refused.log" || fail "reports that can't be written are no error"
grep -q '^nbdloop: write error: ' "$dir/refused.log" || fail "nbdloop top doesn't say that its reports can't be written"

# ---- a terminal
export TERM=xterm
unset TMUX
mux()
{
	tmux -S "$dir/tmux" -f /dev/null "$@"
}
on_exit mux kill-server
mux new-session -d -x 110 -y 20 "env PS1='ready> ' bash --norc --noprofile -i" 2>"$dir/mux.log" || fail "tmux does not start: $(cat "$dir/mux.log")"
screen()
{
	mux capture-pane -p >"$dir/screen.log"
}
on_screen() # REGEX
{
	screen
	grep -qE -- "$1" "$dir/screen.log"
}
appears() # REGEX
{
	wait_until "the screen shows: $1" on_screen "$1"
}
is() # FORMAT WANTED
{
	[ "$(mux display-message -p "$1")" = "$2" ]
}
line_of() # REGEX: the number of the first such line
{
	grep -nE -m 1 -- "$1" "$dir/screen.log" | cut -d : -f 1
}
type_keys()
{
	mux send-keys "$@"
}
before=0
# Nothing is left: neither the other screen, nor its modes.
restored()
{
	wait_until "the former screen is back" is '#{alternate_on}' 0
	wait_until "the cursor is back" is '#{cursor_flag}' 1
	before=$((before + 1))
	type_keys "stty -a >$dir/modes; echo modes $before" Enter
	appears "^modes $before$"
	grep -qE '(^| )icanon ' "$dir/modes" && grep -qE '(^| )echo ' "$dir/modes" || fail "the terminal's modes are not restored"
	appears '^marker$'
}
start_top()
{
	type_keys "clear; echo mar''ker; nbdloop top $*" Enter
	wait_until "another screen" is '#{alternate_on}' 1
	appears '^DEVICE/EXPORT '
}

appears '^ready>'
mux pipe-pane -o "cat >$dir/raw"
start_top -d 0.3
wait_until "no cursor" is '#{cursor_flag}' 0
appears "^$two_pid: +0.00 +0.00"
appears 'no answer for [0-9]+ s'
spawn load "$python" -c 'import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
while True: h.pread(4096, 0)' "$two_uri"
appears "^$two_pid: +[1-9][0-9.]+ +0.00 .* +1 "
# It reads most, so it is the first.
expect_equal "the line of the busy export" 5 "$(line_of "^$two_pid:")"
type_keys N
appears '; by name$'
expect_equal "the first line, by name" 5 "$(line_of '^/dev/nbd0 ')"
type_keys r
appears '; by name, reversed$'
type_keys '>'
appears '; by IO/s, reversed$'
type_keys R M
appears '; by MB/s$'
type_keys '<'
appears '; by writes/s$'
type_keys i
appears 'idle lines are hidden'
screen
! grep -q '^/dev/nbd1 ' "$dir/screen.log" || fail "an idle device is not hidden"
type_keys i h
appears '^nbdloop top: the devices of this machine'
type_keys x
appears '^DEVICE/EXPORT '
type_keys x
appears '^This key does nothing'
type_keys d
appears '^Seconds between measurements \(now 0.3\): _$'
type_keys 9 9 BSpace x Enter
appears '^"9x" is no delay: it must be a number of seconds from 0.1 to 86400$'
type_keys s 0 . 2 Enter
appears 'every 0.2 s'
type_keys Right
appears '^XPORT '
type_keys Left
appears '^DEVICE/EXPORT '

# Resized, and with fewer lines than there is room for: the list moves, no line is cut in two.
mux resize-window -x 40 -y 6
type_keys N
appears '^nbdloop top - [0-9:]{8}, every 0.2 s, 3 d$'
screen
expect_equal "lines of a small screen" 6 "$(wc -l <"$dir/screen.log")"
expect_equal "lines of the list" 2 "$(grep -c '^/dev/nbd' "$dir/screen.log")"
type_keys Down
gone()
{
	! on_screen '^/dev/nbd0 '
}
wait_until "the first line is gone" gone
type_keys End
appears 'no answer'
type_keys Home
appears '^/dev/nbd0 '
mux resize-window -x 110 -y 20
appears ' CONN  ENGINE '
type_keys q
restored

# ---- all other ends
start_top
type_keys C-c
restored
start_top -d 0.2
kill -TERM "$(pgrep -P "$(mux display-message -p '#{pane_pid}')" -f 'nbdloop top')"
restored
# A crash.
start_top -d 0.2
kill -ABRT "$(pgrep -P "$(mux display-message -p '#{pane_pid}')" -f 'nbdloop top')"
restored
start_top -d 0.2
type_keys C-z
restored
type_keys "fg" Enter
wait_until "the screen is back" is '#{alternate_on}' 1
appears '^DEVICE/EXPORT '
type_keys q
restored
# COUNT.
type_keys "clear; echo mar''ker; nbdloop top -n 1 -d 0.2; echo ended \$?" Enter
appears '^ended 0$'
restored

# It draws over what is there: a screen that is cleared first flickers.  Once for each start, and
# after C-z.
"$python" - "$dir/raw" <<'EOF2' >"$dir/check.log" 2>&1 || fail "the screen flickers: $(tail -n 1 "$dir/check.log")"
import sys
raw = open(sys.argv[1], "rb").read()
assert raw.count(b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[J") == raw.count(b"\x1b[?1049h") >= 6
one = raw.split(b"\x1b[?1049h")[1].split(b"\x1b[?1049l")[0]
assert one.count(b"\x1b[H") > 20 and one.count(b"\x1b[2J") == 0 and one.count(b"\x1b[H\x1b[J") == 1
EOF2
end_process load TERM
kill -CONT "$three_pid"
end_process three TERM
