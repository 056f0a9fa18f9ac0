# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the claims about writes that come too late have in common: a drive, mounted at $dir/disk,
# whose writes can be throttled for one server and not for the next; a client that reconnects
# (nbd_netlink.py); a load that sees when a block goes back (generations.py).
#
# To be read after functions.sh, by a claim with one "# vm: drive".

threads=8
groups=/sys/fs/cgroup
drive=$(drive_device 1)
timeout=3

modprobe nbd
mount -t cgroup2 none $groups || fail "there are no control groups"
echo +io >$groups/cgroup.subtree_control || fail "the control groups can't throttle"
mkdir -p $groups/slow
leave_groups()
{
	rmdir $groups/slow
	echo -io >$groups/cgroup.subtree_control
	umount $groups
}
on_exit leave_groups
# On ext4 of 6.1, direct writes to one file wait for each other, and only one would be throttled.
quietly mkfs.xfs -q -f "$drive"
mkdir "$dir/disk"
mount "$drive" "$dir/disk"
on_exit umount -l "$dir/disk"

# The server's arguments: [NBDKIT-OPTION...] -- [KEY=VALUE...]
server_arguments=()

start_in_slow_group()
{
	server_prefix=(bash -c "echo \$\$ >$groups/slow/cgroup.procs && exec \"\$@\"" --)
	start_server "${server_arguments[@]}"
	server_prefix=()
}

# Starts the server as a supervisor would: again and again, until nothing of the old server is in
# the way.
start_again()
{
	local end=$((SECONDS + 120)) ready=$dir/again.pid command
	server_files
	while :; do
		rm -f "$sock" "$ready"
		start_command "$ready" "${server_arguments[@]}"
		spawn server "${command[@]}"
		wait_until "the server listens again, or refuses" server_ready_or_gone "$ready"
		[ ! -s "$ready" ] || return 0
		end_process server
		[ "$SECONDS" -lt "$end" ] || fail "the server can't be started again: $(tail -n 1 "$log")"
		sleep 0.5
	done
}

# An nbdkit of Debian 12 may abort when a connection with requests in flight ends (raw_send_socket:
# Assertion `sock >= 0' failed): that is no fault of the plugin's, and the claim holds all the same.
start_again_if_aborted()
{
	process_gone "${process_pids[server]}" || return 0
	grep -q "raw_send_socket: Assertion" "$log" || fail "the server has ended by itself"
	end_process server
	start_again
}

# The image is not sparse: only its data is throttled.
make_written_image()
{
	rm -f "$dir/record" "$dir/disk/disk.img"
	dd if=/dev/zero of="$dir/disk/disk.img" bs=1M count=32 conv=fsync status=none
}

# Throttles the writes that the server in the slow group begins from now on; writes in flight stay
# as slow as they are.
throttle() # BYTES-A-SECOND|max
{
	echo "$(cat "/sys/block/${drive#/dev/}/dev") wbps=$1" >$groups/slow/io.max || fail "the drive can't be throttled"
}

attached_by_netlink()
{
	grep -q attached "$dir/netlink.log" || process_gone "${process_pids[netlink]}"
}

has_reconnected()
{
	start_again_if_aborted
	grep -q reconnected "$dir/netlink.log" || process_gone "${process_pids[netlink]}" || writer_has_ended
}

writer_has_ended()
{
	process_gone "${process_pids[writer]}"
}

# Each thread has written twice more: the load has not stopped.
goes_on()
{
	start_again_if_aborted
	[ "$(acknowledged "$dir/record")" -ge "$goal" ] || writer_has_ended
}

must_go_on() # WHEN
{
	goal=$(($(acknowledged "$dir/record") + 3 * threads))
	wait_until "writes are acknowledged $1" goes_on
	! writer_has_ended || fail "the writer has ended $1: $(tail -n 1 "$dir/writer.log")"
}

# Attaches the device to the server, and starts the load.
start_load()
{
	spawn netlink "$python" "$VM_SOURCE/nbd_netlink.py" "$sock" 0 $timeout 300
	wait_until "the device is attached" attached_by_netlink
	# 6.1 would split the writes into small requests, which the server carries out without its
	# engine.
	echo 256 >/sys/block/nbd0/queue/max_sectors_kb
	spawn writer "$python" "$VM_SOURCE/generations.py" write /dev/nbd0 "$dir/record" $threads 150
	must_go_on "at the start"
}

end_load()
{
	end_process writer TERM
	expect_equal "status of the writer ($(tail -n 1 "$dir/writer.log"))" 0 "$end_status"
	quietly "$python" "$VM_SOURCE/generations.py" check /dev/nbd0 "$dir/record"
	end_process netlink TERM
	wait_until "the device is detached" device_is_gone /dev/nbd0
	stop_server
	quietly "$python" "$VM_SOURCE/generations.py" check "$dir/disk/disk.img" "$dir/record"
	echo "$engine, direct-io=$1: $(tail -n 1 "$dir/writer.log")"
}
