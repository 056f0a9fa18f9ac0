#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's control socket reports the status as JSON, with connections and their clients, and
# changes direct I/O, the size and the exports while clients are connected.
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
image=$dir/disk.img
socket=$dir/control

status_is_right()
{
	rm -f "$image"
	# The data that is read below must not be a hole.
	head -c 10M /dev/zero >"$image"
	start_nbdloopd --control "$socket" --threads=2 --engine="$engine" --direct-io=on --offset=1M --sizelimit=11M --depth=5 \
		--export "disk=$image,description=of mine"
	expect_equal "mode of the socket" 600 "$(stat -c %a "$socket")"
	"$python" - "$uri" "$socket" "$image" "$pid" "$engine" <<'EOF2' >"$dir/check.log" 2>&1 || fail "wrong status"
import json, os, socket, sys, time
import nbd
uri, path, image, pid, engine = sys.argv[1:]
control = socket.socket(socket.AF_UNIX)
control.connect(path)
answers = control.makefile("rw")

def status():
    answers.write("status\n")
    answers.flush()
    return json.loads(answers.readline())

s = status()
assert set(s) == {"program", "version", "pid", "swap", "threads", "poll_max_us", "max_connections", "exports", "loops",
                  "connections"}, s.keys()
assert (s["program"], s["pid"], s["swap"], s["threads"], s["max_connections"]) == ("nbdloopd", int(pid), False, 2, 100)
assert s["connections"] == []
(e,) = s["exports"]
wanted = {"name": "disk", "description": "of mine", "file": image, "size": 9 << 20, "offset": 1 << 20, "sizelimit": 11 << 20,
          "connections": 0, "read_only": False, "engine": engine, "direct_io": True, "lock": "exclusive", "depth": 5}
for key, value in wanted.items():
    assert e[key] == value and type(e[key]) is type(value), (key, e[key], value)

clients = [nbd.NBD() for _ in range(3)]
for h in clients:
    h.connect_uri(uri)
    h.pwrite(b"x" * 4096, 0)
half = socket.socket(socket.AF_UNIX)
half.connect(uri.partition("socket=")[2])
assert half.recv(18).startswith(b"NBDMAGIC")
s = status()
assert s["exports"][0]["connections"] == 3
assert s["exports"][0]["counters"]["writes"] == 3, s["exports"][0]["counters"]
assert s["exports"][0]["counters"]["write_bytes"] == 3 * 4096
assert sorted(str(c["export"]) for c in s["connections"]) == ["None", "disk", "disk", "disk"], s["connections"]
assert {c["thread"] for c in s["connections"]} == {0, 1}, s["connections"]
assert sorted(c["write_bytes"] for c in s["connections"]) == [0, 4096, 4096, 4096], s["connections"]
assert all(c["read_bytes"] == 0 for c in s["connections"]), s["connections"]
assert sum(s["exports"][0]["latency_us"]["write"]) == 3, s["exports"][0]["latency_us"]
assert all(s["exports"][0]["latency_us"][op] == [] for op in ("read", "flush", "discard", "zero"))
assert all(f"pid {os.getpid()}, uid {os.getuid()}" in c["client"] for c in s["connections"]), s["connections"]

def wait_for_requests(wanted):
    for _ in range(600):
        s = status()
        told = sorted(c["requests"] for c in s["connections"])
        if told == sorted(wanted) and s["exports"][0]["requests"] == sum(wanted):
            return s
        time.sleep(0.1)
    sys.exit(f"requests: {told}, {s['exports'][0]['requests']}, not {wanted}")

half.close()

# A client that doesn't take its replies has requests in flight: each reply is larger than a
# socket's buffer.
buffers = [[nbd.Buffer(8 << 20) for _ in range(count)] for count in (3, 5)]
for h, own in zip(clients, buffers):
    for b in own:
        h.aio_pread(b, 0)
wait_for_requests([3, 5, 0])
for h in clients:
    while h.aio_in_flight():
        h.poll(-1)
s = wait_for_requests([0, 0, 0])
assert sum(s["exports"][0]["latency_us"]["read"]) == 8, s["exports"][0]["latency_us"]
assert sorted(c["read_bytes"] for c in s["connections"]) == [0, 3 * 8 << 20, 5 * 8 << 20], s["connections"]
# The counters stay when all clients are gone, and when new clients are to be told a new size.
for h in clients:
    h.shutdown()
os.truncate(image, 12 << 20)
answers.write("resize\n")
answers.flush()
assert json.loads(answers.readline())["size"] == 11 << 20
s = wait_for_requests([])
assert sum(s["exports"][0]["latency_us"]["read"]) == 8, s["exports"][0]["latency_us"]
EOF2
	stop_server
	[ ! -e "$socket" ] || fail "the server left its control socket behind"
}

each_engine status_is_right

# Delay only the flush, by 50 ms.
require strace
start_nbdloopd --control "$socket" --threads=1 --engine=threads "$image"
trace -e trace=fdatasync -e inject=fdatasync:delay_enter=50000
"$python" - "$uri" "$socket" <<'EOF2' >"$dir/check.log" 2>&1 || fail "wrong latencies"
import json, socket, sys
import nbd
uri, path = sys.argv[1:]
h = nbd.NBD()
h.connect_uri(uri)
h.pread(512, 0)
h.flush()
with socket.socket(socket.AF_UNIX) as control:
    control.connect(path)
    control.sendall(b"status\n")
    latency = json.loads(control.makefile().readline())["exports"][0]["latency_us"]
# The 17th bucket counts latencies of 32,768 to 65,535 microseconds.
assert 17 <= len(latency["flush"]) < 22 and sum(latency["flush"]) == 1, latency
assert sum(latency["read"]) == 1, latency
EOF2
untrace
stop_server

ask() # REQUEST [PATH.IN.THE.ANSWER]
{
	control "$socket" "$@"
}

refuses() # REQUEST REGEX
{
	ask "$1" error >"$dir/answer.log" || fail "no error: $1"
	grep -qE "$2" "$dir/answer.log" || fail "the answer to '$1' doesn't tell: $2"
}

size_of() # EXPORT
{
	nbdinfo --size "nbd+unix:///$1?socket=$sock" 2>"$dir/nbdinfo.log"
}

rm -f "$image"
truncate -s 10M "$image" "$dir/second.img"
start_nbdloopd --control "$socket" --sector-size=1024 --export "disk=$image"

# A connected client keeps its size; the next client sees the new one.
truncate -s 20M "$image"
expect_equal "size before" 10485760 "$(size_of disk)"
expect_equal "size in the answer" 20971520 "$(ask resize size)"
expect_equal "size after" 20971520 "$(size_of disk)"

direct=$(ask status exports.0.direct_io)
if [ "$direct" = true ]; then
	expect_equal "direct I/O" false "$(ask 'set direct-io=off' direct_io)"
	nbdinfo --can cache "$uri" || fail "without direct I/O, clients should be offered to fill the cache"
	expect_equal "direct I/O" true "$(ask 'set direct-io=on export=disk' direct_io)"
	nbdinfo --can cache "$uri" && fail "with direct I/O, there is no cache to offer"
fi

expect_equal "name in the answer" "second" "$(ask "add second=$dir/second.img,read-only=on" name)"
expect_equal "size of the second" 10485760 "$(size_of second)"
expect_equal "an option of the server for the second" 1024 "$(ask status exports.1.sector_size)"
expect_equal "an option of its own" true "$(ask status exports.1.read_only)"
refuses "add second=$image" 'export "second": there is one of that name already'
refuses "add third=$image" 'same image as that of the export "disk"'
refuses "add third=$dir/none" 'none: No such file'
refuses "add third=$dir/none,colour=blue" 'unknown option colour'
refuses 'resize' 'which export'
refuses 'resize export=third' 'no such export'
refuses 'remove export=third' 'no such export'
expect_equal "the removed one" second "$(ask 'remove export=second' removed)"
size_of second && fail "the removed export can still be used"
expect_equal "exports" null "$(ask status exports.0.description)"
ask status exports.1 >"$dir/answer.log" 2>&1 && fail "the removed export is in the status"
expect_equal "name in the answer" "second" "$(ask "add second=$dir/second.img" name)"
stop_server
