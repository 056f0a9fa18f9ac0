#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd never takes a file with other contents, such as another image, for its pid file: it
# neither writes to that file nor removes it, also through a symbolic link. A pid file that somebody
# overwrites later stays, too.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"

# Without the pid file, each of these servers would start; because of the file, it refuses to.
refused_with() # PIDFILE REASON
{
	refuse_nbdloopd 1 -U "$dir/server.sock" -P "$1" "$image"
	expect_log "pid file $1: $2"
}

head -c 1M /dev/urandom >"$dir/random.img"
truncate -s 1M "$dir/zeroes.img"
head -c 100 /dev/zero | tr '\0' 7 >"$dir/digits"
printf '12 apples\n' >"$dir/text"
mkdir "$dir/copies"
for file in random.img zeroes.img digits text; do
	cp "$dir/$file" "$dir/copies/$file"
	refused_with "$dir/$file" 'exists already, and holds something other than a process ID; it is left alone'
	quietly cmp "$dir/$file" "$dir/copies/$file"
done
refused_with "$image" 'exists already, and holds something other'

echo 1 >"$dir/number"
for file in text number missing; do
	ln -s "$file" "$dir/link"
	refused_with "$dir/link" 'is a symbolic link, which is not followed'
	rm "$dir/link"
done
quietly cmp "$dir/text" "$dir/copies/text"
expect_equal "the link's target" 1 "$(cat "$dir/number")"
[ ! -e "$dir/missing" ] || fail "a file was made at the end of a symbolic link"

mkfifo "$dir/fifo"
refused_with "$dir/fifo" 'exists already, and is no regular file'
refused_with "$dir/copies" 'Is a directory'

# The server takes over pid files of a killed server, in any form, and an empty file.
for content in '' '4194304\n' ' 77 \n' 77; do
	# shellcheck disable=SC2059
	printf "$content" >"$dir/again.pid"
	server=again
	server_files
	spawn again nbdloopd -U "$sock" -P "$dir/again.pid" "$image"
	wait_until "the server listens" listens "$sock"
	wait_until "its pid is written" grep -qx "$pid" "$dir/again.pid"
	stop_server
	[ ! -e "$dir/again.pid" ] || fail "the pid file was left behind"
done

# While the server runs, overwrite the pid file with a text that begins with the pid.
server=overwritten
start_nbdloopd "$image"
echo "$pid apples" >"$dir/overwritten.pid"
stop_server
expect_equal "what somebody wrote" "$pid apples" "$(cat "$dir/overwritten.pid")"
