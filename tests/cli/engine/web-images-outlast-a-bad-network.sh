#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While an image on a web server is served, its server fails in each way: reads wait and succeed
# when it works again, or fail after base-timeout with one line in the log that says since when, and
# why; no wrong byte reaches a client. A file that has changed fails at once. The end of the server
# and the removal of an export wait for no network, and neither does another image.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/web.sh"

require_python_nbd
require socat
image=$dir/disk.raw
head -c 1M /dev/urandom >"$image"
web_mode fine
start_web web "$image"
address=http://127.0.0.1:$web_port/disk.raw

# Reads of a client, and what comes of them: see the Python file.
client() # WHAT [ARGUMENT...]
{
	"$python" "$own_python" "$uri" "$image" "$@" >"$dir/client.log" 2>&1 || fail "client $*: $(cat "$dir/client.log")"
}

count_log() # REGEX
{
	grep -cE -- "$1" "$log" || true
}

web_mode fine
start_nbdloopd -r --base-timeout=$((60 * time_factor)) --export "a=$address" --export "file=$image"
client reads
# Half of the transfers break; the rest is asked for again.
web_mode flaky
client reads
reject_log 'reads fail'

# Each failure ends after less than base-timeout; a request that is never answered is given up after
# 15 seconds, and sent again.
for mode in short less more reset silent 503 403 404 whole elsewhere unnamed packed endless headers bigger; do
	web_mode "$mode"
	spawn reader "$python" "$own_python" "$uri" "$image" reads
	sleep 1
	web_mode fine
	end_process reader
	case $mode in
	bigger)
		[ "$end_status" != 0 ] || fail "a file of another size is read"
		expect_log 'reads fail, since .*: the file has changed on the server: from 1048576 to 1049088 bytes'
		;;
	*)
		[ "$end_status" = 0 ] || fail "no read succeeds after $mode: $(cat "$dir/reader.log")"
		;;
	esac
	client reads
done
expect_log 'reads succeed again'

# nbdloop-fetch dies: its transfers begin again.
web_mode slow
spawn reader "$python" "$own_python" "$uri" "$image" reads
sleep 0.3
kill -SEGV "$(sed -n 's/.*sandbox of nbdloop-fetch: process \([0-9]*\),.*/\1/p' "$log")"
end_process reader
[ "$end_status" = 0 ] || fail "no read succeeds after the death of nbdloop-fetch: $(cat "$dir/reader.log")"
expect_log 'nbdloop-fetch died, and was started again'
web_mode fine
stop_server

# Failures for longer than base-timeout: one line, the status, and other images go on.
start_nbdloopd -r --base-timeout=3 --control="$dir/control" --export "a=$address" --export "file=$image"
web_mode 503
client fails 2.5
expect_equal "lines about the failure" 1 "$(count_log 'reads fail, since 20..-..-..T..:..:..Z: the server answers with status 503: it is too busy')"
client fails 2.5
expect_equal "lines about the failure" 1 "$(count_log 'reads fail')"
client file
echo status | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/status"
grep -qE '"failing_since": ?"20[^"]*", ?"failure": ?"the server answers with status 503' "$dir/status" || fail "status: $(cat "$dir/status")"
web_mode fine
client reads
echo status | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/status"
grep -qE '"failing_since": ?null, ?"failure": ?null' "$dir/status" || fail "status: $(cat "$dir/status")"

# A file that has changed: at once, with any validator.
for mode in other changed; do
	web_mode "$mode"
	client fails 0
	expect_log 'reads fail, since .*: the file has changed on the server'
	web_mode fine
	client reads
	: >"$log"
done

# An export is removed while its reads wait.
web_mode silent
spawn reader "$python" "$own_python" "$uri" "$image" fails 0
sleep 0.5
begin=$SECONDS
echo "remove export=a" | socat -t 10 - "UNIX-CONNECT:$dir/control" >"$dir/answer"
grep -q '"error"' "$dir/answer" && fail "remove: $(cat "$dir/answer")"
[ $((SECONDS - begin)) -le 2 ] || fail "the removal waited for the network"
end_process reader
client file
stop_server

# The server ends while reads wait, also without base-timeout's help.
for mode in silent 503; do
	web_mode fine
	start_nbdloopd -r --base-timeout=600 --export "a=$address"
	web_mode "$mode"
	spawn reader "$python" "$own_python" "$uri" "$image" fails 0
	sleep 1
	begin=$SECONDS
	stop_server
	[ $((SECONDS - begin)) -le $((5 * time_factor)) ] || fail "the end waited for the network"
	end_process reader
done
