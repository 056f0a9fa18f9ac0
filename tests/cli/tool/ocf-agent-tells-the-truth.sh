#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The resource agent of nbdloopd starts, monitors and stops the server as a cluster manager expects
# it: what it is told twice is no error, a server that hangs or can't read fails in time, one that
# is gone is "not running" (whoever has its process ID now), and wrong parameters are told with
# their reason.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require setsid nbdinfo
[ -e "$top_builddir/tool/ocf/nbdloopd" ] || skip "the agent was not built (--with-ocfdir=no)"
image=$dir/disk.img
truncate -s 1M "$image"
export OCF_RESOURCE_INSTANCE=disk HA_RSCTMP=$dir/ocf
export OCF_RESKEY_binary OCF_RESKEY_checker OCF_RESKEY_image=$image OCF_RESKEY_export=disk
OCF_RESKEY_binary=$(type -P nbdloopd)
OCF_RESKEY_checker=$(type -P nbdloop)
pid_file=$HA_RSCTMP/nbdloopd-disk.pid
socket=$HA_RSCTMP/nbdloopd-disk.sock
success=0 generic=1 unimplemented=3 installed=5 configured=6 not_running=7

OCF_RESKEY_port=$(free_port)
export OCF_RESKEY_port

agent() # WANTED-STATUS ACTION [NAME=VALUE...]
{
	local wanted=$1 action=$2 status=0
	shift 2
	env OCF_RESKEY_CRM_meta_timeout=$((60000 * time_factor)) "$@" timeout $((90 * time_factor)) \
		"$top_builddir/tool/ocf/nbdloopd" "$action" >"$dir/agent.out" 2>"$dir/agent.log" </dev/null || status=$?
	expect_equal "status of $action $*" "$wanted" "$status"
}

because() # REGEX
{
	grep -qE -- "^ocf-exit-reason:.*$1" "$dir/agent.log" || fail "the agent doesn't give the reason: $1"
}

# Whether a process has not ended; nobody may wait for a child of the agent. While its other threads
# end, the first one may be a zombie.
runs() # PID
{
	grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null ||
		[ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)" -gt 1 ]
}

agent_stops()
{
	"$top_builddir/tool/ocf/nbdloopd" stop
}
on_exit agent_stops

# ---- parameters
agent $success meta-data
"$python" - "$dir/agent.out" <<'END' || fail "the description is no XML"
import sys, xml.etree.ElementTree
root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
assert root.get("name") == "nbdloopd"
assert {a.get("name") for a in root.iter("action")} == {"start", "stop", "monitor", "meta-data", "validate-all"}
assert {"image", "config", "port", "export"} < {p.get("name") for p in root.iter("parameter")}
END
agent $success validate-all
agent $configured validate-all OCF_RESKEY_image=
because "neither image nor config"
agent $configured start OCF_RESKEY_config=/etc/nbdloopd.conf
because "image and config are given"
for port in 0 65536 1x 1000000 -1; do
	agent $configured validate-all OCF_RESKEY_port="$port"
	because "port=$port: it must be a number"
done
agent $configured validate-all OCF_RESKEY_image=disk.img
because "disk.img: the path must be absolute"
agent $installed validate-all OCF_RESKEY_image="$dir/missing.img"
because "missing.img can.t be read on this node"
agent $installed start OCF_RESKEY_binary=/nonexistent/nbdloopd
because "/nonexistent/nbdloopd can.t be run"
agent $unimplemented promote

# ---- before it runs
agent $not_running monitor
agent $not_running monitor OCF_RESKEY_image="$dir/missing.img"
agent $configured monitor OCF_RESKEY_port=0
agent $success stop
agent $success stop OCF_RESKEY_image=
# What cannot succeed on any node is not tried again and again; its reason is nbdloopd's.
agent $configured start OCF_RESKEY_options=--nonsense
because "unknown or ambiguous option --nonsense"
agent $configured validate-all OCF_RESKEY_export='a=b'
because "a name with an equals sign"
agent $configured start OCF_RESKEY_options="--tls=require --tls-psk=$dir/keys"
because "give a check_uri"
# Keys may be missing on one node only.
agent $installed start OCF_RESKEY_options="--tls-psk=$dir/keys" OCF_RESKEY_check_uri=nbds://localhost/
because "$dir/keys: No such file or directory"
printf '%s\n' "[server]" "tls-certificates = $dir/pki" "[export disk]" "file = $image" >"$dir/tls.conf"
agent $configured validate-all OCF_RESKEY_image= OCF_RESKEY_config="$dir/tls.conf"
because "give a check_uri"
# A server of which the agent knows too little, and that no longer answers when half of the time is
# over: the action's time limit holds, with what ending the server takes.
cat >"$dir/checker" <<END
#!/bin/bash
sleep=\${2#--timeout=}
[ \$((\$(date +%s) - \$(stat -c %Y "$dir/begun"))) -lt 3 ] || sleep "\$sleep"
exec "$OCF_RESKEY_checker" "\$@"
END
chmod +x "$dir/checker"
touch "$dir/begun"
started=$SECONDS
agent $generic start OCF_RESKEY_CRM_meta_timeout=16000 OCF_RESKEY_checker="$dir/checker" \
	OCF_RESKEY_check_uri="nbd+unix:///other?socket=$socket"
because 'the server was not ready in time: .*no export "other"'
[ $((SECONDS - started)) -le 15 ] || fail "start took $((SECONDS - started)) of 16 seconds"
agent $not_running monitor

# What has a meaning in --export or in a URI is no harm in a path or a name.
cp "$image" "$dir/a,b=c %.img"
agent $success start OCF_RESKEY_image="$dir/a,b=c %.img" OCF_RESKEY_export='a b,c/%?#"'
agent $success stop OCF_RESKEY_image="$dir/a,b=c %.img"

# The error that ends the server is in the reason.
start_nbdloopd "$image"
agent $generic start
because "disk.img: .*lock"
stop_server

# ---- while it runs
agent $success start
agent $success monitor
pid=$(cat "$pid_file")
agent $success start
expect_equal "the server after another start" "$pid" "$(cat "$pid_file")"
quietly nbdinfo --size "nbd://127.0.0.1:$OCF_RESKEY_port/disk"
[ "$(stat -c %a "$socket")" = 700 ] || fail "others can connect to the agent's socket: $(stat -c %a "$socket")"

# It hangs: monitoring fails in its time, and stop ends it nevertheless.
kill -STOP "$pid"
started=$SECONDS
agent $generic monitor OCF_RESKEY_CRM_meta_timeout=3000
[ $((SECONDS - started)) -le $((3 + 5 * time_factor)) ] || fail "monitoring took $((SECONDS - started)) seconds"
because "its export can.t be read: .*hasn.t answered"
agent $success stop
! runs "$pid" || fail "the server runs after stop"
[ ! -e "$pid_file" ] && [ ! -e "$socket" ] || fail "stop leaves files"
agent $not_running monitor

# It was told to end, and has requests left: it is still there, and stop waits for it.
agent $success start
pid=$(cat "$pid_file")
rm "$pid_file"
agent $success monitor
agent $success stop
! runs "$pid" || fail "the server runs after stop, without its file"

# It ends, and has no command line any more, as its memory is gone already: gone is gone.
agent $success start
record=$HA_RSCTMP/nbdloopd-disk.process
read -r pid _ <"$record"
kill -KILL "$pid"
wait_until "the server is gone" eval '! runs "$pid"'
"$python" -c 'import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit())); time.sleep(60)' &
ending=$!
disown
wait_until "it ignores SIGTERM" grep -q '^SigCgt:.*4...$' "/proc/$ending/status"
echo "$ending $(awk '{print $22}' "/proc/$ending/stat")" >"$record"
agent $success stop
! runs "$ending" || fail "stop does not wait for a process without its command line"

# The agent, and its servers, may inherit a file that is locked: that lock is not theirs.
exec {inherited}>"$dir/inherited"
flock "$inherited"

# It has ended, and the kernel still has the image's lock, as long as a write of it is in flight:
# it would overwrite what the next server writes, on any node. Here, another process has the lock.
agent $success start
spawn holder "$python" -c '
import fcntl, struct, sys, time
with open(sys.argv[1]) as locks, open(sys.argv[2], "rb") as image:
    for line in locks:
        if "OFDLCK" in line:  # and none of a file that the server has inherited
            first, last = map(int, line.split()[-2:])
            lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, first, last - first + 1, 0)
            fcntl.fcntl(image, fcntl.F_OFD_SETLK if hasattr(fcntl, "F_OFD_SETLK") else 37, lock)
    print("holds", flush=True)
    time.sleep(600)' <(cat "/proc/$(cat "$pid_file")/fdinfo/"*) "$image"
wait_until "the lock is held" grep -q holds "$dir/holder.log"
pid=$(cat "$pid_file")
for action in stop stop monitor start; do
	agent $generic $action OCF_RESKEY_CRM_meta_timeout=4000
	because "its writes wait for the disk"
	! runs "$pid" || fail "the server runs after $action"
done
end_process holder KILL
agent $not_running monitor
agent $success stop

# It was killed, and another process has its ID.
agent $success start
pid=$(cat "$pid_file")
kill -KILL "$pid"
wait_until "the server is gone" eval '! runs "$pid"'
agent $not_running monitor
echo $$ >"$pid_file"
agent $not_running monitor
agent $success stop
echo nonsense >"$pid_file"
# The process of this record has ended, too, and the record does not tell when it was started.
echo "$pid" >"$record"
agent $not_running monitor
agent $success start
agent $success monitor
agent $success stop

# Its image can't be read: the file system says EIO, or the file is too short.
agent $success start
truncate -s 0 "$image"
agent $generic monitor
because "its export can.t be read: .*the read failed: the server reports error 5"
truncate -s 1M "$image"
agent $success monitor
agent $success stop

# ---- a configuration file
printf '%s\n' "[server]" "port = $OCF_RESKEY_port" "[export disk]" "file = $image" >"$dir/nbdloopd.conf"
export OCF_RESKEY_image='' OCF_RESKEY_config=$dir/nbdloopd.conf
agent $success start
agent $success monitor
agent $generic monitor OCF_RESKEY_export=other
because 'no export "other"'
agent $success stop
