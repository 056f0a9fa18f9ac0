#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# While several clients write and verify what they read, direct I/O is switched off and on: no
# request fails, no byte is wrong, and once direct I/O is on, the image leaves the page cache.
. "$(dirname "$0")/../lib/functions.sh"

require fincore
require_python_nbd
image=$dir/disk.img
socket=$dir/control

# Switch direct I/O off and on six times; after each switch, 200 more writes must complete.
cat >"$dir/switch.py" <<'EOF'
import json, socket, sys, time

control = socket.socket(socket.AF_UNIX)
control.settimeout(60)
control.connect(sys.argv[1])
answers = control.makefile("rw")

def ask(request):
    answers.write(request + "\n")
    answers.flush()
    return json.loads(answers.readline())

def writes():
    return ask("status")["exports"][0]["counters"]["writes"]

for value in ["off", "on"] * 6:
    answer = ask(f"set direct-io={value}")
    assert answer.get("direct_io") is (value == "on"), answer
    assert ask("status")["exports"][0]["direct_io"] is (value == "on")
    wanted = writes() + 200
    end = time.monotonic() + int(sys.argv[2])
    while writes() < wanted:
        assert time.monotonic() < end, f"the load stands still with direct-io={value}"
        time.sleep(0.01)
EOF

switches()
{
	local cached
	rm -f "$image"
	truncate -s 16M "$image"
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 control="$socket"
	spawn load "$python" "$lib/verify_load.py" "$uri" 4 $((100 * time_factor))
	quietly "$python" "$dir/switch.py" "$socket" $((20 * time_factor))
	cached=$(cached_bytes "$image")
	[ "$cached" -lt 262144 ] || fail "$cached bytes of the image are in the page cache with direct I/O on"
	end_process load TERM
	expect_equal "status of the load" 0 "$end_status"
	expect_equal "errors" 0 "$(control "$socket" status exports.0.counters.errors)"

	# With direct I/O off, data that is read stays in the page cache.
	expect_equal direct_io false "$(control "$socket" "set direct-io=off" direct_io)"
	"$python" -c '
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pread(4 << 20, 0)
h.shutdown()' "$uri"
	cached=$(cached_bytes "$image")
	[ "$cached" -ge 4194304 ] || fail "only $cached bytes are in the page cache without direct I/O"
	stop_server
}

each_engine switches
