#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server with include=DIR serves an export for each file of the directory. At SIGHUP it follows
# files that have come and gone, in its sandbox, and says what has changed. A broken file changes
# nothing, and --check-config names the line.
. "$(dirname "$0")/../../../lib/functions.sh"

mkdir "$dir/images" "$dir/exports.d"
truncate -s 1M "$dir/images/"{a,b,c}.img

export_file() # NAME [LINE...]
{
	printf '%s\n' "[export $1]" "file = $dir/images/$1.img" "${@:2}" >"$dir/exports.d/$1.conf"
}

names()
{
	nbdinfo --list --json "nbd+unix:///?socket=$sock" | sed -n 's/.*"export-name": "\(.*\)".*/\1/p' | xargs
}

check() # STATUS
{
	local status=0
	nbdloopd --check-config --config "$dir/server.conf" >"$dir/check.log" 2>&1 || status=$?
	expect_equal "status of --check-config" "$1" "$status"
}

# reloads TEXT: has the server read its configuration, and waits for what it says.
reloads()
{
	kill -HUP "$pid"
	wait_until "the server says: $1" grep -qF "$1" "$log"
}

export_file a
export_file b 'iops-limit = 100'
touch "$dir/exports.d/.hidden.conf" "$dir/exports.d/c.conf.old"
echo nonsense | tee "$dir/exports.d/.hidden.conf" >"$dir/exports.d/c.conf.old"
printf '%s\n' '[server]' "include = $dir/exports.d" "sandbox-path = $dir/images" >"$dir/server.conf"
check 0
expect_equal "what --check-config says" "" "$(cat "$dir/check.log")"
start_nbdloopd --config "$dir/server.conf"
expect_equal "exports" "a b" "$(names)"
reloads "read again: no export has changed"

export_file b 'iops-limit = 200'
export_file c
reloads "read again: 1 export added, 1 changed"
expect_equal "exports with another file" "a b c" "$(names)"
export_file b 'iops-limit = 200' 'client-connections-limit = 9'
reloads "read again: 1 export changed"
rm "$dir/exports.d/a.conf" "$dir/exports.d/c.conf"
reloads "read again: 2 exports removed"
expect_equal "exports without a and c" "b" "$(names)"

export_file c 'iops-limit = fast'
check 2
grep -q "$dir/exports.d/c.conf:3: export \"c\": iops-limit=fast: must be" "$dir/check.log" ||
	fail "--check-config names no line: $(cat "$dir/check.log")"
reloads "$dir/exports.d/c.conf:3: export \"c\": iops-limit=fast"
expect_log "everything stays as it is"
export_file c
# What the server needs beside its images.
cp "$dir/server.conf" "$dir/kept.conf"
echo "tls-psk = $dir/keys.psk" >>"$dir/server.conf"
check 1
grep -q "$dir/keys.psk: No such file" "$dir/check.log" || fail "no word of the keys: $(cat "$dir/check.log")"
(umask 077; echo alice:0123456789abcdef0123456789abcdef >"$dir/keys.psk")
check 0
echo 'user = nobody-of-this-name' >>"$dir/server.conf"
check 1
grep -q "nobody-of-this-name" "$dir/check.log" || fail "no word of the user: $(cat "$dir/check.log")"
[ -S "$sock" ] || fail "--check-config removed the socket"
mv "$dir/kept.conf" "$dir/server.conf"
rm "$dir/images/c.img"
check 0
reloads "read again: 1 export failed"
expect_equal "exports at the end" "b" "$(names)"
stop_server
