#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The control socket, which only the server's user may use, answers with the status as JSON: every
# fact of every export, and counters that increase.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image="$dir/a \"quoted\" näme.img"
socket=$dir/control

nobody_connected()
{
	[ "$(control "$socket" status exports.0.connections)" = 0 ]
}

facts_are_right()
{
	rm -f "$image"
	truncate -s 10M "$image"
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 offset=1M discard=off \
		contexts=3 depth=5 control="$socket"
	expect_equal "mode of the socket" 600 "$(stat -c %a "$socket")"
	connect_once
	wait_until "the client is not counted any more" nobody_connected
	control "$socket" status >"$dir/status.log"
	"$python" - "$dir/status.log" "$image" "$pid" "$engine" <<'EOF' >"$dir/check.log" 2>&1 || fail "wrong status"
import json, os, sys
status = json.load(open(sys.argv[1]))
assert set(status) == {"program", "version", "pid", "swap", "exports"}, status.keys()
assert status["swap"] is False
assert status["program"] == "nbdkit-loop-plugin"
assert status["pid"] == int(sys.argv[3])
assert status["version"]
(export,) = status["exports"]
wanted = {
    "name": "", "file": sys.argv[2], "size": 9 << 20, "offset": 1 << 20, "sizelimit": 0, "sector_size": 4096,
    "read_only": False, "engine": sys.argv[4], "direct_io": True, "direct_io_reason": "",
    "poll": False, "discard": False, "lock": "exclusive", "connections": 0, "depth": 5,
}
for key, value in wanted.items():
    assert export[key] == value and type(export[key]) is type(value), (key, export[key], value)
place = os.stat(sys.argv[2])
assert export["inode"] == place.st_ino and export["device"] == f"{os.major(place.st_dev)}:{os.minor(place.st_dev)}", export
for key, kind in {"engine_reason": str, "poll_reason": str, "direct_io_align": int,
                  "memory_align": int, "contexts": int, "registered_buffers": bool}.items():
    assert type(export[key]) is kind, (key, export[key])
assert export["contexts"] <= 3, export["contexts"]
assert export["direct_io_align"] in (512, 1024, 2048, 4096)
assert set(export["counters"]) == {
    "reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "zeroes", "errors",
    "bounced", "read_modify_writes", "short_transfers", "retries"}, export["counters"].keys()
EOF
	stop_server
	[ ! -e "$socket" ] || fail "the server left its control socket behind"
}

counters_count()
{
	start_server -- "$image" engine="$engine" direct-io=on sector-size=4096 control="$socket"
	"$python" - "$uri" "$socket" <<'EOF' >"$dir/check.log" 2>&1 || fail "wrong counters"
import json, socket, sys
import nbd

control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[2])
answers = control.makefile("rw")

# Send several requests on one connection.
def export():
    answers.write("status\n")
    answers.flush()
    return json.loads(answers.readline())["exports"][0]

def grown(action):
    before = export()["counters"]
    action()
    after = export()["counters"]
    return {key: after[key] - before[key] for key in after if after[key] != before[key]}

h = nbd.NBD()
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
h.connect_uri(sys.argv[1])
assert export()["connections"] == 1, export()["connections"]

seen = grown(lambda: h.pread(65536, 0))
assert seen["reads"] == 1 and seen["read_bytes"] == 65536, seen
assert "writes" not in seen and "read_modify_writes" not in seen and "errors" not in seen, seen
seen = grown(lambda: h.pwrite(b"x" * 8192, 4096))
assert seen["writes"] == 1 and seen["write_bytes"] == 8192, seen
assert "read_modify_writes" not in seen, seen
seen = grown(lambda: h.pwrite(b"x" * 100, 5000))
assert seen["writes"] == 1 and seen["write_bytes"] == 100 and seen["read_modify_writes"] >= 1, seen
assert grown(h.flush)["flushes"] == 1
assert grown(lambda: h.trim(65536, 1 << 20))["discards"] == 1
assert grown(lambda: h.zero(65536, 2 << 20))["zeroes"] == 1
assert grown(lambda: None) == {}
h.shutdown()
EOF
	wait_until "the client is not counted any more" nobody_connected
	stop_server
}

each_engine facts_are_right
each_engine counters_count
