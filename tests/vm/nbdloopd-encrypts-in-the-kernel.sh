#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: memory 512M
# nbdloopd lets the kernel encrypt (--tls-kernel): on io_uring and on epoll, with TLS 1.3 and 1.2, a
# client on GnuTLS writes and reads the right data.  By default, TLS 1.3 with AES-GCM stays in user
# space, with the reason in the status; TLS 1.2 does not.
#
# If a key or a record's number is wrong, the first request fails. If a receive or send uses
# MSG_WAITALL, or data from the handshake stays in the server, a connection stands still.
. "$(dirname "$0")/functions.sh"

require python3
modprobe tls || fail "there is no module tls"
truncate -s 8M "$dir/disk.img"
echo "alice:000102030405060708090a0b0c0d0e0f" >"$dir/keys.psk"
printf '[overrides]\ndisabled-version = tls1.3\n' >"$dir/only-1.2"

talks() # EXPECTED
{
	quietly timeout 120 python3 "$own_python" "nbds://alice@127.0.0.1:10809/?tls-psk-file=$dir/keys.psk" "$dir/control" "$1"
}

kernel_sessions()
{
	awk '$1 == "TlsTxSw" || $1 == "TlsRxSw" { sum += $2 } END { print sum }' /proc/net/tls_stat
}

encrypts() # TLS-KERNEL EXPECTED
{
	local before
	start_nbdloopd --engine="$engine" --port 10809 --tls-psk="$dir/keys.psk" --tls-kernel="$1" \
		--control "$dir/control" "$dir/disk.img"
	before=$(kernel_sessions)
	talks "$2"
	case $2 in
	*kernel) expect_equal "sessions of the kernel, in both directions" $((before + 2)) "$(kernel_sessions)" ;;
	*) expect_equal "sessions of the kernel" "$before" "$(kernel_sessions)" ;;
	esac
	stop_server
}

# A connection whose keys are used up ends, and the log says why; the next one has new keys. No
# request is refused: requests without an answer end with the connection.
ends_with_its_keys()
{
	NBDLOOP_TLS_BYTES=3000000 start_nbdloopd --engine=io_uring --port 10809 --tls-psk="$dir/keys.psk" --tls-kernel=on \
		--control "$dir/control" "$dir/disk.img"
	for _ in 1 2; do
		talks ended
		wait_until "the log tells of the keys" grep -q 'disconnected: TLS: its keys have encrypted as much as is safe' "$log"
		: >"$log"
	done
	stop_server
}

# A client takes an unannounced end for an attack.
says_its_end()
{
	quietly nbdloop keys certificates "$dir/pki" --server=localhost --client=alice
	start_nbdloopd --engine=io_uring --port 10809 --tls-certificates="$dir/pki" --tls-kernel=on \
		--control "$dir/control" "$dir/disk.img"
	quietly timeout 120 python3 "$VM_SOURCE/kernel_tls_end.py" 10809 "$dir/pki/alice" "$dir/control"
	stop_server
}

ends_with_its_keys
says_its_end
engine=threads
encrypts on '1.3 AES-128-GCM kernel'
engine=io_uring
encrypts on '1.3 AES-128-GCM kernel'
encrypts auto "1.3 AES-128-GCM user space (the kernel can't follow changes of its keys: tls-kernel)"
export GNUTLS_SYSTEM_PRIORITY_FILE=$dir/only-1.2
encrypts auto '1.2 CHACHA20-POLY1305 kernel'
