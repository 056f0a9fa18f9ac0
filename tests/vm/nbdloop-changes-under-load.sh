#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# While fio writes and verifies on an attached device, its direct I/O is switched off and on. Its
# server is replaced by another program file, by nbdloop and as an upgrade of the package does it.
# There is no error, and the next server keeps the setting of direct I/O. The device also gets
# another size during these changes.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
image=$dir/disk.img
truncate -s 64M "$image"

# set prints the server's own words.
switch() # on|off WANTED-STATUS
{
	expect_equal "what set prints" "$device: direct I/O $1" "$(nbdloop set --direct-io="$1" "$device" 2>"$dir/set.log")"
	expect_equal "direct I/O" "$2" "$(direct_io_of "$device")"
}

# The next server has another program file, as after an upgrade.
mkdir "$dir/program"
cp "$top_builddir/server/nbdloopd" "$dir/program/nbdloopd"
PATH=$dir/program:$PATH

# dpkg renames the new program over the old one, and runs the package's script, which replaces the
# servers of all devices.  A release has no debian/.
upgrade_package()
{
	local script=$VM_SOURCE/../../debian/nbdloopd.postinst
	cp "$dir/program/nbdloopd" "$dir/program/nbdloopd.dpkg-new"
	mv "$dir/program/nbdloopd.dpkg-new" "$dir/program/nbdloopd"
	if [ -e "$script" ]; then
		# Its directory for keys is there: what debhelper adds would make the user.
		mkdir -p "$dir/etc/nbdloopd"
		DPKG_ROOT=$dir quietly sh "$script" configure 0.1.0-0
	else
		quietly nbdloop replace-server "$device"
	fi
}

mark_kernel_log
nbdloop_attach "$image"
start_load --filename="$device" --size=32M --bsrange=4k-64k --iodepth=8
for i in 1 2 3; do
	switch off false
	before=$(server_pid "$device")
	if [ $i = 3 ]; then upgrade_package; else quietly nbdloop replace-server "$device"; fi
	[ "$(server_pid "$device")" != "$before" ] || fail "it is the same server after replace-server"
	process_gone "$before" || fail "the old server is still there"
	expect_equal "direct I/O of the new server" false "$(direct_io_of "$device")"
	switch on true
done
expect_equal "what set prints" "$device: iops-limit read:100000,write:200000" \
	"$(nbdloop set --iops-limit='read:100000 write:200000' "$device" 2>"$dir/set.log")"
quietly nbdloop replace-server "$device"
expect_equal "limit of the new server" 200000 "$(control "$(control_of "$device")" status exports.0.limits.iops.write)"
nbdloop_refuses 'iops-limit=many: must be operations per second' set --iops-limit=many "$device"

# Requests to a server that has just died wait for the next server, which starts slowly here.
printf '#!/bin/sh\nsleep 2\nexec "%s" "$@"\n' "$top_builddir/server/nbdloopd" >"$dir/program/slow"
chmod +x "$dir/program/slow"
mv "$dir/program/slow" "$dir/program/nbdloopd"
kill -KILL "$(server_pid "$device")"
switch off false
truncate -s 65M "$image"
kill -KILL "$(server_pid "$device")"
quietly nbdloop resize "$device"
expect_equal "sectors of the device" $((65 << 11)) "$(device_sectors "$device")"
kill -KILL "$(server_pid "$device")"
quietly nbdloop replace-server "$device"
expect_equal "direct I/O of the new server" false "$(direct_io_of "$device")"
rm "$dir/program/nbdloopd"
expect_load

# The size changes while a server is replaced. Linux 6.12 then waits for the requests in flight,
# which are sent again to the next server. Meanwhile, it accepts no connection to yet another
# server.
replace_servers()
{
	local i
	for i in {1..6}; do
		nbdloop replace-server "$device" || return 1
	done
}
spawn replacing replace_servers
size=65
while ! process_gone "${process_pids[replacing]}"; do
	size=$((size + 1))
	truncate -s "${size}M" "$image"
	quietly nbdloop resize "$device"
	expect_equal "sectors of the device" $((size << 11)) "$(device_sectors "$device")"
done
end_process replacing
expect_equal "status of those who replaced servers" 0 "$end_status"
[ "$size" -gt 67 ] || fail "it got another size only $((size - 65)) times"
expect_load

# The server dies between its own answer and the guard's answer. The guard, which is stopped
# meanwhile, sees the request first.
require strace
size=$((size + 1))
truncate -s "${size}M" "$image"
quietly strace -qq -o "$dir/sockets" -e trace=socket nbdloop resize "$device"
size=$((size + 1))
truncate -s "${size}M" "$image"
# nbdloop's last socket is the one for the guard.
spawn resizing strace -qq -o "$dir/stopped" -e trace=socket -e "inject=socket:signal=STOP:when=$(grep -c '^socket(' "$dir/sockets")" \
	nbdloop resize "$device"
wait_until "nbdloop resize is about to ask the guard" grep -qs 'stopped by SIGSTOP' "$dir/stopped"
guard=$(basename "$(control_of "$device")" .sock)
before=$(server_pid "$device")
kill -STOP "$guard"
kill -KILL "$before"
kill -CONT "$(pgrep -P "${process_pids[resizing]}")"
sleep 2
kill -CONT "$guard"
end_process resizing
[ "$end_status" = 0 ] || fail "no new size: $(cat "$dir/resizing.log")"
expect_equal "sectors of the device" $((size << 11)) "$(device_sectors "$device")"
[ "$(server_pid "$device")" != "$before" ] || fail "it is the same server"
expect_load

# An error in the new program shows before the old server is ended.
before=$(server_pid "$device")
printf '#!/bin/sh\necho broken >&2\nexit 1\n' >"$dir/program/broken"
chmod +x "$dir/program/broken"
mv "$dir/program/broken" "$dir/program/nbdloopd"
nbdloop_refuses "the server stays: .*broken" replace-server "$device"
expect_equal "server after a refused replace-server" "$before" "$(server_pid "$device")"

end_load
nbdloop_detach "$device"
expect_nothing_left
! kernel_log | grep -E 'I/O error' || fail "the kernel had I/O errors"

# Impossible settings are refused, in the server's words, and nothing changes: tmpfs has no direct
# I/O on 6.1; an offset that breaks the rule for direct I/O is refused everywhere.
rm -f "$dir/program/nbdloopd"
nbdloop_attach -o 100 "$image"
nbdloop_refuses 'offset' set --direct-io=on "$device"
usage_status=2 nbdloop_refuses 'a setting is missing' set "$device"
nbdloop_detach "$device"
expect_nothing_left
