#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop attaches in one network namespace what a server in another exports, by TCP, with several
# connections. Neither a cable that is pulled out for a while nor a server restart causes an error
# or a lost write. A larger export makes a larger device. For a name with two addresses, one working
# address is enough. Options that the kernel or the server does not support are refused in plain
# words.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/../lib/network.sh"

require fio
image=$dir/remote.img
truncate -s 64M "$image"
connect_two_networks
remote=nbd://$server_address:10809

start_remote()
{
	start_nbdloopd --address "$server_address" --port 10809 --tls=off --control "$dir/server.control" "$image"
}

remote_attach() # OPTION...
{
	device=$("${client[@]}" nbdloop attach --show "$@" "$remote" 2>"$dir/attach.log") || fail "nbdloop attach $* $remote fails"
	device_is_there "$device" || fail "$device has no size"
}

remote_refuses() # REGEX ARGUMENT...
{
	local status=0 wanted=$1
	shift
	"${client[@]}" nbdloop "$@" >"$dir/refused.out" 2>"$dir/refused.log" || status=$?
	expect_equal "status of nbdloop $*" 1 "$status"
	grep -qE -- "$wanted" "$dir/refused.log" || fail "nbdloop $* doesn't say: $wanted"
	expect_nothing_of_nbdloop
}

expect_nothing_of_nbdloop()
{
	local attached=(/sys/block/nbd*/pid)
	[ ! -e "${attached[0]}" ] || fail "still attached: ${attached[*]}"
	! pgrep -lx nbdloop >"$dir/left.log" || fail "a guard is left"
}

modprobe nbd
mark_kernel_log
remote_refuses "$server_address.*(refused|Connection)" attach "$remote"
# The server accepts connections, and then says nothing.
spawn silent "${server_prefix[@]}" "$python" -c "import socket, time; s = socket.create_server(('$server_address', 10809)); time.sleep(600)"
wait_until "a silent server listens" "${client[@]}" bash -c "exec 8<>/dev/tcp/$server_address/10809"
remote_refuses "$remote: the server hasn't answered for 30 seconds" attach "$remote"
end_process silent TERM
start_remote
# The cable connects only the two namespaces.
nbdloop_refuses "$server_address" attach "$remote"
# The first of the name's two addresses never answers: packets to it arrive nowhere.
cp /etc/hosts "$dir/hosts"
printf '%s\n' "10.99.0.3 two-addresses" "$server_address two-addresses" >>"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
on_exit umount /etc/hosts
"${client[@]}" ip neighbour add 10.99.0.3 lladdr 02:00:00:00:00:03 dev cable
expect_equal "addresses" "10.99.0.3 $server_address" "$("${client[@]}" getent ahostsv4 two-addresses | awk '/STREAM/ {print $1}' | xargs)"
started=$SECONDS
device=$("${client[@]}" nbdloop attach --show nbd://two-addresses:10809 2>"$dir/attach.log") || fail "the second address isn't tried"
[ $((SECONDS - started)) -lt 25 ] || fail "the second address is tried only after $((SECONDS - started)) seconds"
expect_equal "backend" nbd://two-addresses:10809 "$(cat "/sys/block/${device#/dev/}/backend")"
quietly "${client[@]}" nbdloop detach "$device"
remote_refuses 'no-such-export' attach "$remote/no-such-export"

remote_attach --connections 2 --timeout 5 --dead-timeout 120
expect_equal "size" $((64 << 20)) "$(blockdev --getsize64 "$device")"
expect_equal "backend" "$remote" "$(cat "/sys/block/${device#/dev/}/backend")"
expect_equal "what the list says of it" "$remote remote" "$(nbdloop list -n -O BACK-FILE,SERVER "$device" | xargs)"
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
"${client[@]}" ip link set cable down
# The cable is unplugged for longer than a request may take: the connections are replaced.
sleep 8
"${client[@]}" ip link set cable up
sleep 5
kill_server
sleep 1
start_remote
end_load

# The server's side makes the image larger.
truncate -s 80M "$image"
control "$dir/server.control" resize >"$dir/control.log" 2>&1 || fail "the server does not resize"
quietly "${client[@]}" nbdloop resize "$device"
expect_equal "size after resize" $((80 << 20)) "$(blockdev --getsize64 "$device")"
dd if=/dev/urandom of="$dir/data" bs=1M count=8 status=none
quietly dd if="$dir/data" of="$device" bs=1M seek=72 oflag=direct
nbdloop_refuses 'nbdloop cannot change a server that it did not start' change "$device" "$image"
nbdloop_refuses 'nbdloop cannot change a server that it did not start' set --direct-io=on "$device"
quietly "${client[@]}" nbdloop detach "$device"
device_is_gone "$device" || fail "$device is still there"
expect_nothing_of_nbdloop
quietly cmp -n $((8 << 20)) "$dir/data" "$image" 0 $((72 << 20))
stop_server
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"

# A server that doesn't allow several connections.
spawn nbdkit "${server_prefix[@]}" nbdkit -f -i "$server_address" -p 10810 --filter=multi-conn memory 16M multi-conn-mode=disable
wait_until "nbdkit listens" "${client[@]}" nbdinfo --size "nbd://$server_address:10810"
remote=nbd://$server_address:10810
remote_refuses "doesn't allow several connections" attach --connections 2 "$remote"
remote_attach -r
quietly blockdev --flushbufs "$device"
expect_equal "read-only" 1 "$(blockdev --getro "$device")"
quietly nbdloop detach "$device"
expect_nothing_of_nbdloop
