#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program writes more to a file system on /dev/nbd0 than the machine has memory left. The kernel
# encrypts for the device, and for its server on the same machine. The data is right, and no request
# fails.
#
# The memory that write-back needs to encrypt, and that the server needs to decrypt, must not wait
# for write-back.
# vm: memory 512M
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

cd "$dir"
size=12 files=6 # MiB of each file
address=127.0.0.1
modprobe tls || fail "there is no module tls"

# Prints how many pages were looked at for memory since the boot.
scanned()
{
	awk '$1 == "pgscan_direct" || $1 == "pgscan_kswapd" {sum += $2} END {print sum}' /proc/vmstat
}

is_listening()
{
	[ -n "$(ss -Htln "sport = 10809")" ]
}

# Takes all memory except this much.
leave_memory() # MIB
{
	local available
	available=$(awk '$1 == "MemAvailable:" {print int($2 / 1024)}' /proc/meminfo)
	mkdir -p "$dir/hog"
	mount -t tmpfs -o size=100% tmpfs "$dir/hog"
	on_exit umount "$dir/hog"
	head -c $((available - $1))M /dev/zero >"$dir/hog/memory"
}

mark_kernel_log
quietly nbdloop keys psk keys.psk alice
truncate -s 256M remote.img
spawn server nbdloopd --address $address --tls-psk=keys.psk --tls-kernel=on --swap --threads=1 --memory=32M \
	--max-connections=8 --direct-io=on "$dir/remote.img"
wait_until "the server listens" is_listening
nbdloop_attach --swap --timeout 100 --tls-psk keys.psk "nbds://alice@$address/"
expect_equal "connections that the kernel encrypts" 2 "$(awk '$1 == "TlsCurrTxSw" {print $2}' /proc/net/tls_stat)"
quietly mkfs.ext4 -q -F "$device"
mount_at "$dir/mounted" "$device"
head -c ${size}M /dev/urandom >piece
leave_memory 60
before=$(scanned)
for ((i = 0; i < files; i++)); do
	quietly cp piece "mounted/$i"
done
quietly sync -f mounted
for ((i = 0; i < files; i++)); do
	quietly cmp piece "mounted/$i"
done
pages=$(($(scanned) - before))
[ "$pages" -gt $((files * size << 8)) ] || fail "only $pages pages were looked at: nothing is proved"
echo "$pages pages were looked at for memory; $SECONDS s"
unmount "$dir/mounted"
quietly e2fsck -f -n "$device"
nbdloop_detach "$device"
end_process server TERM
expect_nothing_left
expect_quiet_kernel
