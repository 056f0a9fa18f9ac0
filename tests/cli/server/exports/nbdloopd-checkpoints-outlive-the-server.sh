#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's checkpoints are kept in a file beside the image: after SIGKILL and after an orderly end
# the next server has them. If the image was changed without it, or the file is torn, of another
# version, or can't be written, it says that they are unknown: in the log, in the list and to
# clients, whose writes go on.
. "$(dirname "$0")/../../../lib/functions.sh"

require_nbdloop
require qemu-io nbdinfo strace
control=$dir/control
image=$dir/disk.img
changes=$image.changes
truncate -s 64M "$image"

start() # [OPTION]...
{
	start_nbdloopd --control "$control" "$@" "$image"
}

map()
{
	nbdinfo --map=qemu:dirty-bitmap:monday "$uri" 2>"$dir/nbdinfo.log" | awk '{ print $1, $2, $3 }' | paste -sd ,
}

# The list, and clients, say REGEX.
is_unknown() # REGEX
{
	nbdloop checkpoint list "$control" >"$dir/list" 2>"$dir/list.log" && fail "the list is no error"
	grep -qE "^nbdloop: .*unknown: .*$1.*: take a full backup" "$dir/list.log" || fail "the list doesn't say $1: $(cat "$dir/list.log")"
	expect_log "$1.*: take a full backup"
	nbdinfo --map=qemu:dirty-bitmap:monday "$uri" >"$dir/map" 2>&1 && fail "an unknown checkpoint has a map: $(cat "$dir/map")"
	test "$(control "$control" status exports.0.changes_problem)" != "" || fail "the status has no problem"
}

renew()
{
	start
	quietly nbdloop checkpoint delete "$control" monday
	test ! -e "$changes" || fail "there is a file without checkpoints"
	quietly nbdloop checkpoint create "$control" monday
}

start
test ! -e "$changes" || fail "there is a file without checkpoints"
quietly nbdloop checkpoint create "$control" monday
quietly qemu-io -f raw -c 'write -P 1 1M 64k' -c 'discard 8M 4k' "$uri"
first="0 1048576 0,1048576 65536 1,1114112 7274496 0,8388608 65536 1,8454144 58654720 0"
expect_equal "map" "$first" "$(map)"
end_process server KILL

start
expect_equal "map after SIGKILL" "$first" "$(map)"
quietly qemu-io -f raw -c 'write -P 2 1088k 1k' "$uri"
second="0 1048576 0,1048576 131072 1,1179648 7208960 0,8388608 65536 1,8454144 58654720 0"
expect_equal "map" "$second" "$(map)"
stop_server
start
expect_equal "map after the end" "$second" "$(map)"
stop_server

# The file is beside the image, whatever link leads to that: a device's server has one in /proc.
ln -s "$image" "$dir/link"
exec 9<>"$image"
for link in "$dir/link" "/proc/$$/fd/9"; do
	start_nbdloopd --control "$control" "$link"
	expect_equal "file" "$(realpath "$image").changes" "$(control "$control" status exports.0.changes)"
	expect_equal "map by a link" "$second" "$(map)"
	stop_server
done
exec 9>&-

# Another program writes to the image.
printf x | dd of="$image" bs=1 seek=5000000 conv=notrunc status=none
start
is_unknown "the image was changed without this server"
must_fail nbdloop checkpoint create "$control" tuesday
grep -q "delete these checkpoints first" "$dir/refused.log" || fail "a new checkpoint is not refused with words"
quietly nbdloop snapshot "$control" then
stop_server
renew
stop_server

truncate -s 65M "$image"
start
is_unknown "another size"
stop_server
truncate -s 64M "$image"
start
is_unknown "another size"
stop_server
renew
stop_server

# Of another image: the record may have to wait for its own one.
cp -p "$changes" "$dir/kept"
cp -p "$image" "$dir/copy.img"
mv "$dir/copy.img" "$image"
start
is_unknown "another image"
must_fail nbdloop checkpoint create "$control" tuesday
grep -q "remove it, or" "$dir/refused.log" || fail "a new checkpoint is not refused with words"
stop_server
quietly cmp "$dir/kept" "$changes"
rm "$changes"
start
quietly nbdloop checkpoint create "$control" monday
stop_server

# The file is torn, or of a later version: it stays as it is.
cp -p "$changes" "$dir/good"
for place in 100 8292; do
	printf x | dd of="$changes" bs=1 seek="$place" conv=notrunc status=none
done
start
is_unknown "torn or corrupted"
stop_server
for place in 8 8200; do
	printf '\2' | dd of="$dir/good" bs=1 seek="$place" conv=notrunc status=none
done
cp -p "$dir/good" "$changes"
start
is_unknown "a newer version of nbdloopd: it has format 2"
must_fail nbdloop checkpoint create "$control" tuesday
stop_server
quietly cmp "$dir/good" "$changes"
rm "$changes"

# The file is needed for something else.
refuse() # TEXT OPTION...
{
	local text=$1

	shift
	must_fail nbdloopd -U "$dir/refused.sock" "$@"
	grep -q "$text" "$dir/refused.log" || fail "nbdloopd doesn't say $text: $(cat "$dir/refused.log")"
}
truncate -s 1M "$dir/other.img"
refuse "is the image itself" --changes="$image" "$image"
refuse "changes=/dev/null is no regular file" --changes=/dev/null "$image"
refuse "is the image of the export \"a\"" --export "a=$dir/other.img" --export "b=$image,changes=$dir/other.img"
refuse "is that of the export \"a\" already" --export "a=$dir/other.img,changes=$dir/both" --export "b=$image,changes=$dir/both"

# Parts of one image have a file each.
start --offset=1M
expect_equal "file" "$image.1048576.changes" "$(control "$control" status exports.0.changes)"
stop_server

# There is no room for the file, or no place.
start --changes="$dir/none/changes"
must_fail nbdloop checkpoint create "$control" monday
grep -q "No such file" "$dir/refused.log" || fail "the missing directory is not named"
expect_equal "checkpoints" "[]" "$(control "$control" status exports.0.checkpoints)"
stop_server

# Its disk fails while clients write.
start --changes="$dir/elsewhere"
quietly nbdloop checkpoint create "$control" monday
expect_equal "file" "$dir/elsewhere" "$(control "$control" status exports.0.changes)"
trace -P "$dir/elsewhere" -e trace=pwrite64,fdatasync -e inject=pwrite64,fdatasync:error=ENOSPC
quietly qemu-io -f raw -c 'write -P 3 2M 64k' -c 'write -P 3 4M 64k' "$uri"
untrace
is_unknown "No space left on device"
test ! -e "$dir/elsewhere" || fail "a file is left that must not be trusted"
quietly nbdloop checkpoint delete "$control" monday
quietly nbdloop checkpoint create "$control" monday
expect_equal "map" "0 67108864 0" "$(map)"
stop_server
