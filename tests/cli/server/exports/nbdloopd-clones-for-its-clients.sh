#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With clone=client, each client has a disk of its own, on all its connections and as long as the
# server runs; with clone=connection, each connection has. The image stays as it is, the number of
# clones is limited, and rules and lists know them.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
base=$dir/base.raw
head -c 4M /dev/urandom >"$base"
cp -p "$base" "$dir/before.raw"
"$python" -c 'import secrets
for user in "alice", "bob", "eve", "mallory":
    print(f"{user}:{secrets.token_hex(32)}")' >"$dir/keys.psk"
chmod 600 "$dir/keys.psk"

port=$(free_port)
start_nbdloopd --port "$port" --control "$dir/control" --tls=require --tls-psk "$dir/keys.psk" \
	--export "room=$base,clone=client,clones-limit=2,allow=psk:alice psk:bob psk:eve,allow-write=psk:alice psk:bob psk:eve" \
	--export "try=$base,clone=connection,clones-limit=3" --export "other=$dir/before.raw,read-only=on"
"$python" "$own_python" "$port" "$dir" >"$dir/check.log" 2>&1 || fail "wrong clones"
expect_log 'export "room@psk:alice": temporary clone of '
expect_log 'warning: export "room": no clone for psk:eve: there are 2 already \(clones-limit\)'
expect_log 'refused: no rule lets this client use the export "room"'
stop_server
quietly cmp "$base" "$dir/before.raw"

# A directory that is gone when a client comes.
mkdir "$dir/scratch"
start_nbdloopd --clone=connection --scratch="$dir/scratch" --sandbox=off "$base"
rmdir "$dir/scratch"
must_fail nbdinfo --size "$uri"
expect_log "export \"\": no clone for connection:1: no file can be made in $dir/scratch: No such file or directory"
mkdir "$dir/scratch"
quietly nbdinfo --size "$uri"
stop_server
# The sandbox lets the server make clones there.
start_nbdloopd --clone=client --scratch="$dir/scratch" "$base"
quietly nbdinfo --size "$uri"
stop_server

# Refused.
for options in --read-only --changes="$dir/record"; do
	refuse_nbdloopd 2 -U "$dir/sock" --clone=client "$options" "$base"
	expect_log 'export "": clone=client is not possible with '
done
refuse_nbdloopd 2 -U "$dir/sock" --clone=client rbd:pool/image
expect_log 'only for files and block devices'
