#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop export lists and changes the exports of a running nbdloopd, whatever their names are, and
# names what is wrong: with status 1 if something fails, and 2 if the command line is wrong.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdinfo
require_python_nbd
control=$dir/disk.ctl
truncate -s 1M "$dir/disk.img" "$dir/a,b c.img" "$dir/third.img"
truncate -s 2M "$dir/other.img"
start_nbdloopd --control "$control" --export="disk=$dir/disk.img" --export="web: ü/x=$dir/other.img,read-only=on"

refuses() # STATUS REGEX ARGUMENT...
{
	local wanted=$2 expected=$1 status=0
	shift 2
	timeout $((20 * time_factor)) nbdloop export "$@" >"$dir/said.out" 2>"$dir/said.log" </dev/null || status=$?
	expect_equal "status of nbdloop export $*" "$expected" "$status"
	grep -qE -- "^nbdloop: .*$wanted" "$dir/said.log" || fail "nbdloop export $* doesn't say: $wanted"
	[ ! -s "$dir/said.out" ] || fail "nbdloop export $* prints something, though it fails"
	expect_equal "lines of nbdloop export $*" 1 "$(wc -l <"$dir/said.log")"
}

list() # COLUMNS [ARGUMENT...]
{
	nbdloop export list --noheadings --output "$@" | paste -sd';'
}

changes() # ARGUMENT...
{
	nbdloop export "$@" >"$dir/said.out" 2>"$dir/said.log" || fail "nbdloop export $* fails"
	[ "$1" = set ] || [ ! -s "$dir/said.out" ] || fail "nbdloop export $* prints something"
}

# ---- tables and JSON
expect_equal "the headings" "NAME SIZE RO DIO CONNECTIONS LIMITS BACK-FILE" "$(nbdloop export list "$control" | head -n 1 | xargs)"
nbdloop export list "$control" | grep -E "^web: ü/x 2097152  1 +[01] +0 +$dir/other.img\$" >/dev/null || fail "the table is: $(nbdloop export list "$control")"
expect_equal "names and sizes" "disk 1048576;web: ü/x 2097152" "$(list name,size "$control" | tr -s ' ')"
expect_equal "one export" "disk" "$(list NAME "$control:disk")"
expect_equal "one export" "web: ü/x" "$(list NAME "$control:web: ü/x")"
expect_equal "in the working directory" "disk;web: ü/x" "$(cd "$dir" && list NAME disk.ctl)"
expect_equal "in the working directory" "disk" "$(cd "$dir" && list NAME disk.ctl:disk)"
nbdloop export list --json "$control:disk" >"$dir/json"
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert [e["name"] for e in d["exports"]] == ["disk"] and d["program"] == "nbdloopd", d' \
	"$dir/json" || fail "the JSON is: $(cat "$dir/json")"

# ---- the server of the packaged service
mkdir -p "$dir/root/run/nbdloopd"
ln -s "$control" "$dir/root/run/nbdloopd/control.sock"
(
	export NBDLOOP_SYSROOT=$dir/root
	cd "$dir"
	expect_equal "the exports of the service" "disk;web: ü/x" "$(list NAME)"
	expect_equal "an export of the service" "disk" "$(list NAME disk)"
)

# ---- changes
changes set --iops-limit="500 burst:2000" --client-connections-limit=3 --allow-write=user:root "$control:disk"
expect_equal "settings" "iops-limit=500,burst:2000 connections-limit=3 user:root" \
	"$(list LIMITS,CLIENT-LIMITS,ALLOW-WRITE "$control:disk")"
changes set --iops-limit=0 --client-connections-limit=0 --allow-write=any "$control:disk"
expect_equal "what set prints" "$control:disk: allow-write any;$control:disk: iops-limit 0;$control:disk: client-connections-limit 0" \
	"$(paste -sd';' "$dir/said.out")"
expect_equal "settings" "any" "$(list ALLOW-WRITE,LIMITS,CLIENT-LIMITS "$control:disk")"
changes set --direct-io=no "$control:web: ü/x"
expect_equal "direct I/O" 0 "$(list DIO "$control:web: ü/x")"

(cd "$dir" && changes add "$control:new: 1" "a,b c.img" read-only=on "description=a, b")
expect_equal "the new export" "new: 1 1 $dir/a,b c.img a, b" "$(list NAME,RO,BACK-FILE,DESCRIPTION "$control:new: 1")"
expect_equal "its size" 1048576 "$(nbdinfo --size "nbd+unix:///new%3a%201?socket=$sock")"
truncate -s 3M "$dir/a,b c.img"
expect_equal "output of resize" "3145728 bytes" "$(nbdloop export resize "$control:new: 1")"
printf 'QFI\373\0\0\0\3' | dd of="$dir/third.img" conv=notrunc status=none
changes add "$control:" "$dir/third.img"
expect_equal "the format that an image looks like" "0 qcow2" "$(list HELD,LOOKS-LIKE "$control:")"
expect_equal "the size of the export without a name" 1048576 "$(nbdinfo --size "nbd+unix:///?socket=$sock")"

# ---- clients; an export in use is removed, and its clients remain until they are disconnected
spawn client "$python" -c 'import sys, time, client
handle = client.connect(sys.argv[1], "disk")
print("connected", flush=True)
time.sleep(1000)' "$sock"
wait_until "the client is connected" grep -qs connected "$dir/client.log"
expect_equal "the clients" "disk 0 uid:$(id -u)" "$(list EXPORT,RO,IDENTITY --clients "$control" | grep -o "disk 0 \|uid:$(id -u)" | paste -sd'\0')"
expect_equal "the clients of another export" "" "$(list EXPORT --clients "$control:new: 1")"
expect_equal "connections" 1 "$(list CONNECTIONS "$control:disk")"
expect_equal "clients that are no user's" "0 connections ended" "$(nbdloop export disconnect "$control:disk" "uid:4294967000" cn:none)"
changes remove "$control:disk"
expect_equal "the clients" "disk" "$(list EXPORT --clients "$control:disk")"
expect_equal "disconnected clients" "1 connection ended" "$(nbdloop export disconnect "$control:disk" any)"
refuses 1 'there is no export "disk"; nbdloop export list .*disk.ctl shows all$' list --clients "$control:disk"

# ---- what fails
refuses 1 'there is no export "disk"; nbdloop export list .*disk.ctl shows all' remove "$control:disk"
refuses 1 'there is no export "none"; nbdloop export list .*disk.ctl shows all' resize "$control:none"
refuses 1 'there is one of that name already' add "$control:new: 1" "$dir/disk.img"
refuses 1 'missing.img: No such file or directory' add "$control:missing" "$dir/missing.img"
refuses 1 'unknown option colour' add "$control:x" "$dir/disk.img" colour=red
refuses 1 '"red" is not OPTION=VALUE' add "$control:x" "$dir/disk.img" red
refuses 1 'a=b: ' add "$control:x" "$dir/disk.img" iops-limit=a=b
refuses 1 'iops-limit' set --iops-limit=many "$control:new: 1"
refuses 1 'disk.ctl has several exports: name one, as in .*disk.ctl:EXPORT: ".*", ".*"$' resize "$control"
refuses 1 'nobody.such' disconnect "$control" user:nobody.such
refuses 1 'EXPORT "a.*: must be one line' remove "$control:a"$'\nremove export=new: 1'
refuses 1 'control socket .*/none: No such file or directory$' list "$dir/none"
refuses 1 'control socket .*/none: No such file or directory$' remove "$dir/none:disk"
refuses 1 'disk.img is not the control socket of a server$' list "$dir/disk.img"
NBDLOOP_SYSROOT=$dir/empty refuses 1 "there is no control socket $dir/empty/run/nbdloopd/control.sock: start nbdloopd.service, or name another SOCKET, as in SOCKET:web\$" remove web

# ---- what is wrong by itself
refuses 2 'ACTION is missing'
refuses 2 'there is no action "lst"; did you mean list\?; nbdloop export --help' lst
refuses 2 'a word is missing: must be nbdloop export remove \[SOCKET:\]EXPORT$' remove
refuses 2 'a word is missing: must be nbdloop export add ' add "$control:x"
refuses 2 'a word is missing: must be nbdloop export disconnect ' disconnect "$control"
refuses 2 'there is a word too many: must be nbdloop export resize ' resize "$control:a" b
refuses 2 'disk.ctl: name an export, too: .*disk.ctl:EXPORT' remove "$control"
refuses 2 'EXPORT "a=b": a name has no equals sign' add "$control:a=b" "$dir/disk.img"
refuses 2 'EXPORT " new": a new name begins with no blank' add "$control: new" "$dir/disk.img"
refuses 2 'a setting is missing, such as --iops-limit=500' set "$control"
refuses 2 'limits, rules and --direct-io are for set; add takes OPTION=VALUE' add --iops-limit=5 "$control:x" "$dir/disk.img"
refuses 2 '--direct-io=maybe: must be on or off' set --direct-io=maybe "$control:x"
refuses 2 '--clients, --json, --noheadings and --output are for list' remove --json "$control:x"
refuses 2 '--json prints all: leave out' list --json --output NAME "$control"
refuses 2 'unknown or ambiguous option --nonsense' list --nonsense "$control"
refuses 2 'unknown column: COLOUR; nbdloop export --help lists' list --output NAME,COLOUR "$control"
expect_equal "exports in the end" ";new: 1;web: ü/x" "$(list NAME "$control" | tr ';' '\n' | sort | paste -sd';')"

# ---- another user
if [ "$(id -u)" = 0 ]; then
	use_unprivileged_server
	status=0
	"${as_nobody[@]}" "$top_builddir/tool/nbdloop" export list "$control" >"$dir/said.log" 2>&1 || status=$?
	expect_equal "status of another user's command" 1 "$status"
	grep -q "can't be connected to: Permission denied" "$dir/said.log" || fail "another user is told: $(cat "$dir/said.log")"
fi
stop_server
refuses 1 'disk.ctl' list "$control"

# ---- the configuration is read again, and the command waits for it
printf '%s\n' '[export one]' "file = $dir/disk.img" >"$dir/conf"
start_nbdloopd --config "$dir/conf" --control "$control"
expect_equal "without a change" "no export has changed" "$(nbdloop export reload "$control")"
changes add "$control:more" "$dir/third.img"
printf '%s\n' '[export two]' "file = $dir/other.img" >>"$dir/conf"
expect_equal "what has changed" "1 export added, 1 removed" "$(nbdloop export reload "$control")"
expect_equal "exports" "one;two" "$(list NAME "$control")"
printf '%s\n' '[export three]' "file = $dir/missing.img" >>"$dir/conf"
status=0
nbdloop export reload "$control" >"$dir/said.out" 2>"$dir/said.log" || status=$?
expect_equal "status of a reload with a missing image" 1 "$status"
expect_equal "what has changed" "1 export failed: $dir/missing.img: No such file or directory" "$(cat "$dir/said.out")"
grep -q '^nbdloop: not everything is as the configuration has it: the log' "$dir/said.log" || fail "no word of the missing image"
printf '%s\n' '[export four]' "colour = red" >>"$dir/conf"
refuses 1 'conf.*colour' reload "$control"
refuses 2 'reload is for all exports: name a SOCKET' reload "$control:one"
expect_equal "exports" "one;two" "$(list NAME "$control")"
kill -HUP "$pid"
nbdloop export reload "$control" >"$dir/said.out" 2>&1 && fail "a wrong configuration is no error"
# Several at once, while the server ends.
printf '%s\n' '[export one]' "file = $dir/disk.img" >"$dir/conf"
for i in 1 2 3 4; do
	nbdloop export reload "$control" >"$dir/reload$i" 2>&1 &
done
wait "$!" || fail "a reload beside others fails: $(cat "$dir/reload4")"
expect_equal "exports" "one" "$(list NAME "$control")"
for i in 1 2 3 4; do
	nbdloop export reload "$control" >"$dir/reload$i" 2>&1 &
done
stop_server

# ---- keys are read again, too
if [ "$(nbdloopd --help | grep -c -- --tls-psk)" -gt 0 ]; then
	quietly nbdloop keys psk "$dir/keys.psk" alice
	start_nbdloopd --config "$dir/conf" --control "$control" --tls-psk="$dir/keys.psk"
	quietly nbdloop keys psk "$dir/keys.psk" bob
	expect_equal "what a reload says of keys" "no export has changed; keys and certificates were read again" \
		"$(nbdloop export reload "$control")"
	: >"$dir/keys.psk"
	nbdloop export reload "$control" >"$dir/said.out" 2>&1 && fail "keys that are of no use are no error"
	grep -q '^no export has changed; TLS goes on with its old keys and certificates$' "$dir/said.out" ||
		fail "no word of the keys: $(cat "$dir/said.out")"
	stop_server
fi

# ---- a server of somebody else's changes nothing on the terminal
spawn other "$python" -c 'import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
client = server.accept()[0]
client.recv(1000)
client.sendall(b"{\"reloaded\": \"no\\u001bc\"}\n")' "$dir/other.ctl"
wait_until "the other server listens" listens "$dir/other.ctl"
expect_equal "what another server says" 'no\x1bc' "$(nbdloop export reload "$dir/other.ctl")"
