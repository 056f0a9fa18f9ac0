#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server whose machine is cut off for longer than the file server's lease has lost its lock, and
# another machine's server has the image. When the first machine is connected again, the writes that
# its server had in flight fail, with direct I/O and without: newer data stay. It answers no request
# with success until it is started again.
#
# A server whose descriptor for direct I/O has no lock of its own would fail this test, since the
# kernel carries out the late write.
#
# vm: servers nbdloopd
. "$(dirname "$0")/functions.sh"
. "$VM_SOURCE/nfs.sh"

require qemu-io
images=(direct cached)

start_on_client() # NUMBER
{
	server=s$1 start_nbdloopd --control "$dir/s$1.control" --export "direct=$dir/c$1/direct.img" --export "cached=$dir/c$1/cached.img,direct-io=off" \
		--direct-io=on
}

uri_of() # IMAGE NUMBER
{
	echo "nbd+unix:///$1?socket=$dir/s$2.sock"
}

write_all() # BYTE NUMBER
{
	local image
	for image in "${images[@]}"; do
		quietly qemu-io -f raw -c "write -P $1 0 1M" -c flush "$(uri_of "$image" "$2")"
	done
}

# The file server's files have this byte in all images.
expect_files() # BYTE WHEN
{
	local image
	for image in "${images[@]}"; do
		file_has "$image.img" "$1" || fail "$image.img has other data $2"
	done
}

is_under_way() # INDEX
{
	[ "$(control "$dir/s1.control" status "exports.$1.requests")" -gt 0 ]
}

make_file_server direct.img cached.img
start_on_client 1
write_all 1 1
expect_files 1 "at the start"

ip link set cable1 down
for i in 0 1; do
	spawn "late$i" qemu-io -f raw -c "write -P 2 0 1M" -c flush "$(uri_of "${images[i]}" 1)"
	wait_until "a request of ${images[i]} waits" is_under_way "$i"
done
sleep $((lease * 2))
start_on_client 2
write_all 3 2
expect_files 3 "when another machine's server has written"

ip link set cable1 up
for i in 0 1; do
	poll_for 60 process_gone "${process_pids[late$i]}" || fail "${images[i]}: the late request gets no answer"
	end_process "late$i"
	[ "$end_status" != 0 ] || fail "${images[i]}: the late write or its flush succeeds"
done
expect_files 3 "after the late writes"
for image in "${images[@]}"; do
	must_fail qemu-io -f raw -c "write -P 4 0 1M" -c flush "$(uri_of "$image" 1)"
	must_fail qemu-io -r -f raw -c "read 0 64k" "$(uri_of "$image" 1)"
	grep -q "c1/$image.img: write of .* failed" "$dir/s1.log" || [ "$image" = cached ] || fail "the log does not tell that a write failed"
done
expect_files 3 "after later writes of the first server"

# The usual rules again.
write_all 5 2
expect_files 5 "when the other machine's server goes on"
server=s1 stop_server
server=s2 stop_server
start_on_client 1
for image in "${images[@]}"; do
	quietly qemu-io -r -f raw -c "read -P 5 0 1M" "$(uri_of "$image" 1)"
done
write_all 6 1
expect_files 6 "when the first server was started anew"
server=s1 stop_server
