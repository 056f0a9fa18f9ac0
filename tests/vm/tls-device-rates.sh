#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: limit 1800
# The source of a table of bench/tls: how fast a device is over TLS. The kernel encrypts, or a
# process between the kernel and the server: nbdloop's proxy, or nbd-client's. All use one nbdloopd,
# a certificate, and one connection. The last one is without TLS. For each run it prints "rate:
# WORK: CLIENT: REQUESTS PER SECOND".
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio
require nbd-client
cd "$dir"
image=$dir/disk.img
address=127.0.0.1
size=64M

is_listening()
{
	[ -n "$(ss -Htln "sport = 10809")" ]
}

# fio's terse output has the rates of reads and writes in its fields 8 and 49.
measure() # CLIENT DEVICE
{
	local work options said
	for work in "4 KiB reads, depth 1:randread:4k:1" "4 KiB reads, depth 16:randread:4k:16" "1 MiB reads, depth 8:read:1m:8" \
		"1 MiB writes, depth 8:write:1m:8"; do
		IFS=: read -r -a options <<<"$work"
		said=$(fio --name=rate --filename="$2" --direct=1 --ioengine=libaio --size=$size \
			--rw="${options[1]}" --bs="${options[2]}" --iodepth="${options[3]}" --time_based \
			--runtime="${NBDLOOP_SECONDS:-5}" --randrepeat=0 --minimal) || fail "fio on $2"
		echo "rate: ${options[0]}: $1: $(cut -d';' -f8,49 <<<"$said" | awk -F';' '{print $1 + $2}')"
	done
}

modprobe nbd
quietly nbdloop keys certificates pki --server=$address --client=alice
fallocate -l $size "$image"
dd if=/dev/urandom of="$image" bs=1M count="${size%M}" conv=notrunc status=none
spawn server nbdloopd --address $address --direct-io=off --tls=allow --tls-certificates=pki "$image"
wait_until "the server listens" is_listening
server_files
nbd_server=($address 10809)
for ((round = 0; round < ${NBDLOOP_ROUNDS:-3}; round++)); do
	nbdloop_attach --tls-certificates pki/alice "nbds://$address/"
	measure "nbdloop, the kernel" "$device"
	nbdloop_detach "$device"
	nbdloop_attach --tls=proxy --tls-certificates pki/alice "nbds://$address/"
	measure "nbdloop, a proxy" "$device"
	nbdloop_detach "$device"
	attach /dev/nbd9 -enable-tls -tlshostname $address -cacertfile pki/alice/ca-cert.pem \
		-certfile pki/alice/client-cert.pem -keyfile pki/alice/client-key.pem
	measure "nbd-client, its proxy" /dev/nbd9
	detach /dev/nbd9
	nbdloop_attach "nbd://$address/"
	measure "nbdloop, without TLS" "$device"
	nbdloop_detach "$device"
done
end_process server TERM
