#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: qemu two processors, from which several connections get requests
# nbdloop attaches over TLS what a server exports to those who have a key or a certificate. The
# kernel encrypts, and no process is between kernel and server. Without TLS in the kernel, a proxy
# encrypts. No error and no lost write follows from a killed server, a killed proxy, a server that
# has a stranger's certificate for a while, or keys that are used up. A machine without TLS in its
# kernel, a wrong key, and a server that is not who it claims to be are refused in plain words.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require fio busybox
cd "$dir"
image=$dir/remote.img
address=127.0.0.1
remote=$address:10809
truncate -s 64M "$image"

kill_tls()
{
	end_process server KILL
}

is_listening()
{
	[ -n "$(ss -Htln "sport = 10809")" ]
}

start_tls() # SERVER OPTION...
{
	case $1 in
	nbdkit) spawn server nbdkit -f -i $address --tls=require "${@:2}" file "$image" ;;
	nbdloopd) spawn server nbdloopd --address $address "${@:2}" "$image" ;;
	esac
	wait_until "the server listens" is_listening
}

# The kernel's own counters: connections that it encrypts now, and what went wrong with them.
tls_stat() # NAME
{
	awk -v "name=$1" '$1 == name {print $2}' /proc/net/tls_stat
}

# The ports of our ends of the connections.
ports()
{
	ss -Htn state established "dport = 10809" | awk '{sub(".*:", "", $3); print $3}' | sort
}
ports_differ() # PORTS
{
	local now
	now=$(ports)
	[ -n "$now" ] && [ -z "$(comm -12 <(echo "$1") <(echo "$now"))" ]
}

log_says() # REGEX
{
	grep -qE -- "$1" syslog.log
}

expect_tls() # WHAT
{
	expect_equal "what the list says of it" "nbds://alice@$remote/ remote $1" \
		"$(nbdloop list -n -O BACK-FILE,SERVER,TLS "$device" | xargs)"
}

# The server dies under load, and comes back.
restart_under_load()
{
	local before
	before=$(ports)
	kill_tls
	sleep 1
	start_tls nbdkit --tls-psk=keys.psk
	wait_until "both connections have new keys" ports_differ "$before"
}

modprobe nbd
mark_kernel_log
spawn syslog busybox syslogd -n -O "$dir/syslog.log"
wait_until "the system log is there" test -S /dev/log
quietly nbdloop keys psk keys.psk alice bob
quietly nbdloop keys psk others.psk alice
quietly nbdloop keys certificates pki --server=$address --client=alice
quietly nbdloop keys certificates stranger --server=$address

# ---- keys
# An earlier claim may have loaded the module.
modprobe -rq tls || true
modprobe_path=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
nbdloop_refuses 'the kernel has no tls module.*modprobe tls.*CONFIG_TLS.*--tls=proxy' attach --tls-psk keys.psk "nbds://alice@$remote/"

# A proxy needs no TLS in the kernel.
start_tls nbdkit --tls-psk=keys.psk
nbdloop_attach --tls=proxy --connections 2 --timeout 5 --dead-timeout 500 --tls-psk keys.psk "nbds://alice@$remote/"
expect_tls "1.3 AES-128-GCM proxy"
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
restart_under_load
expect_load
before=$(ports)
quietly pkill -KILL -x nbdloop-proxy
wait_until "both connections are new" ports_differ "$before"
log_says 'proxy [0-9]+ was killed by signal 9' || fail "the log tells nothing of the killed proxy"
expect_load
quietly pkill -KILL -x nbdloop
quietly nbdloop adopt "$device"
restart_under_load
end_load
nbdloop_detach "$device"
[ ! -e /proc/net/tls_stat ] || fail "the module tls was loaded"
echo "$modprobe_path" >/proc/sys/kernel/modprobe

nbdloop_refuses 'the server demands TLS \(nbds://\) for the export' attach "nbd://$remote/"
nbdloop_refuses "nbds://alice@$remote/: (TLS: |the server closed the connection in the TLS handshake)" attach --tls-psk others.psk "nbds://alice@$remote/"
nbdloop_refuses 'carol' attach --tls-psk keys.psk "nbds://carol@$remote/"
expect_equal "connections that the kernel encrypts" 0 "$(tls_stat TlsCurrTxSw)"

export NBDLOOP_TLS_BYTES=16000000
nbdloop_attach --connections 2 --timeout 5 --dead-timeout 500 --tls-psk keys.psk "nbds://alice@$remote/"
unset NBDLOOP_TLS_BYTES
expect_equal "connections that the kernel encrypts" "2 2" "$(tls_stat TlsCurrTxSw) $(tls_stat TlsCurrRxSw)"
expect_tls "1.3 AES-128-GCM kernel"
! grep -rlF "$(sed -n 's/^alice://p' keys.psk)" /run/nbdloop || fail "the key is in a file of the guard"
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
for ((i = 0; i < 3; i++)); do
	before=$(ports)
	wait_until "both connections have new keys" ports_differ "$before"
	expect_load
done
log_says 'have used up their keys; they are replaced' || fail "the log tells nothing of new keys"
restart_under_load
end_load
nbdloop_detach "$device"
end_process server TERM
expect_equal "connections that the kernel encrypts" 0 "$(tls_stat TlsCurrTxSw)"

# ---- certificates
start_tls nbdloopd --tls-certificates=pki
nbdloop_refuses "nbds://$remote/: (TLS: |the server closed the connection in the TLS handshake)" attach --tls-certificates pki "nbds://$remote/"
nbdloop_refuses "nbds://$remote/: TLS: .*(hostname|name)" attach --tls-certificates pki/alice --tls-hostname other.example "nbds://$remote/"
nbdloop_attach --dead-timeout 500 "nbds://$remote/?tls-certificates=$dir/pki/alice"
restart_pki()
{
	kill_tls
	start_tls nbdloopd --tls-certificates=pki
}
expect_request_soon_repeated "${process_pids[server]}" restart_pki
start_load --filename="$device" --size=48M --bsrange=4k-64k --iodepth=8
kill_tls
start_tls nbdloopd --tls-certificates=stranger --tls-verify-peer=off
wait_until "the log tells of a stranger's certificate" log_says 'nbds://.*: TLS: .*certificate.*trying again'
kill_tls
start_tls nbdloopd --tls-certificates=pki
wait_until "the device is served again" log_says 'served again'
end_load
dd if=/dev/urandom of=data bs=1M count=8 status=none
quietly dd if=data of="$device" bs=1M seek=56 oflag=direct
# It ends the session as TLS wants it: an alert comes where the kernel expects a reply. The next one
# has the kernel encrypt, too.
end_process server TERM
start_tls nbdloopd --tls-certificates=pki --tls-kernel=on --control "$dir/server.control"
quietly dd if="$device" of=copy bs=1M skip=56 count=8 iflag=direct
quietly cmp data copy
expect_equal "connections that the kernel encrypts, at both ends" 2 "$(tls_stat TlsCurrTxSw)"
quietly cmp -n $((8 << 20)) data "$image" 0 $((56 << 20))
expect_equal "size after resize" $((64 << 20)) "$(blockdev --getsize64 "$device")"
truncate -s 80M "$image"
control server.control resize >control.log 2>&1 || fail "the server does not resize"
quietly nbdloop resize "$device"
expect_equal "size after resize" $((80 << 20)) "$(blockdev --getsize64 "$device")"
nbdloop_detach "$device"

# nbd-client has TLS of its own, in a process between the kernel and the server.
server_files
nbd_server=($address 10809)
attach /dev/nbd9 -enable-tls -tlshostname $address -cacertfile pki/alice/ca-cert.pem \
	-certfile pki/alice/client-cert.pem -keyfile pki/alice/client-key.pem
quietly dd if=data of=/dev/nbd9 bs=1M seek=7 count=4 oflag=direct
quietly cmp -n $((4 << 20)) data "$image" 0 $((7 << 20))
quietly dd if=/dev/nbd9 of=copy bs=1M skip=56 count=8 iflag=direct
quietly cmp data copy
detach /dev/nbd9
end_process server TERM
expect_nothing_left
expect_equal "records that could not be decrypted" 0 "$(tls_stat TlsDecryptError)"
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
