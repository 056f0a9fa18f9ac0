#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients on TLS write real data and read it back: qemu-img, qemu-io, nbdcopy, and nbdkit as a
# client, each with a certificate and with a key.  Each of the two exports lets in one of them only.
# On each engine.  nbd-client, which only has certificates, lists the exports: what it does with a
# device is a claim of tests/vm.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/certificates.sh"

require certtool qemu-img qemu-io nbdcopy mke2fs nbd-client
nbdkit --dump-plugin nbd >"$dir/nbdkit.log" 2>&1 || skip "nbdkit has no plugin nbd"
source=$dir/source
size=$((24 << 20))
make_ext4_image "$source" 24M

# The server is called by its address: localhost may be another one.
address=127.0.0.1
port=$(free_port)
make_authority "$dir/pki"
make_certificate "$dir/pki" server "cn = \"$address\"\nip_address = \"$address\"\ntls_www_server"
make_certificate "$dir/pki" client 'cn = "alice"\ntls_www_client'
mkdir "$dir/alice"
mv "$dir/pki"/client-*.pem "$dir/alice"
cp "$dir/pki/ca-cert.pem" "$dir/alice"
"$python" -c 'import secrets; print(f"alice:{secrets.token_hex(32)}")' >"$dir/alice/keys.psk"
chmod 600 "$dir/alice/keys.psk"

# What each program calls the export of that kind of client.
use() # x509|psk
{
	qemu_drive="driver=raw,file.driver=nbd,file.host=$address,file.port=$port,file.export=$1,file.tls-creds=tls"
	case $1 in
	x509)
		qemu_object=tls-creds-x509,id=tls,endpoint=client,dir=$dir/alice
		nbd_uri="nbds://$address:$port/x509?tls-certificates=$dir/alice"
		nbdkit_options=("tls-certificates=$dir/alice")
		;;
	psk)
		qemu_object=tls-creds-psk,id=tls,endpoint=client,dir=$dir/alice,username=alice
		nbd_uri="nbds://alice@$address:$port/psk?tls-psk-file=$dir/alice/keys.psk"
		nbdkit_options=("tls-psk=$dir/alice/keys.psk" tls-username=alice)
		;;
	esac
}

qemu() # COMMAND [ARGUMENT...]
{
	quietly "qemu-$1" "${@:2}"
}

qemu_img_keeps_data()
{
	qemu img convert -n --object "$qemu_object" --target-image-opts -f raw "$source" "$qemu_drive"
	# The other image is called in the same way.
	qemu img compare --object "$qemu_object" --image-opts "$qemu_drive" "driver=raw,file.driver=file,file.filename=$source"
	qemu img convert --object "$qemu_object" --image-opts -O raw "$qemu_drive" "$dir/copy"
	quietly cmp "$source" "$dir/copy"
}

# 64 writes are in flight, none of whole blocks.
qemu_io_keeps_data()
{
	local i writes=() reads=()
	for ((i = 0; i < 64; i++)); do
		writes+=(-c "aio_write -q -P $((i + 1)) $((i * 12345)) 12345")
		reads+=(-c "read -P $((i + 1)) $((i * 12345)) 12345")
	done
	qemu io --object "$qemu_object" --image-opts "$qemu_drive" "${writes[@]}" -c aio_flush \
		-c 'write -f -P 0x22 16M 3M' -c 'write -z 20M 1M' -c flush "${reads[@]}" \
		-c 'read -P 0x22 16M 3M' -c 'read -P 0 20M 1M'
	! grep -iE 'fail|error' "$dir/command.log" >&2 || fail "qemu-io failed"
}

# nbdkit is the client, and serves in clear to the next.
nbdkit_keeps_data() # KIND
{
	# shellcheck disable=SC2016 # $uri is nbdkit's
	source=$source copy=$dir/copy quietly nbdkit -U - nbd hostname=$address "port=$port" "export=$1" tls=require \
		"${nbdkit_options[@]}" --run 'nbdcopy --flush "$source" "$uri" && nbdcopy "$uri" "$copy"'
	quietly cmp "$source" "$dir/copy"
}

libnbd_keeps_data()
{
	quietly nbdcopy --flush "$source" "$nbd_uri"
	rm -f "$dir/copy"
	quietly nbdcopy "$nbd_uri" "$dir/copy"
	quietly cmp "$source" "$dir/copy"
}

nbd_client_lists()
{
	local seen
	seen=$(timeout $((60 * time_factor)) nbd-client -l $address "$port" -enable-tls -tlshostname $address -cacertfile "$dir/alice/ca-cert.pem" \
		-certfile "$dir/alice/client-cert.pem" -keyfile "$dir/alice/client-key.pem" 2>"$dir/nbd-client.log") || fail "nbd-client -l fails"
	# Before the names, it says how the negotiation goes.
	expect_equal "what nbd-client lists" x509 "$(tail -n 1 <<<"$seen" | grep -o '[^ ]*$')"
}

keep_data()
{
	local kind
	for kind in x509 psk; do
		rm -f "$dir/$kind.img"
		truncate -s $size "$dir/$kind.img"
	done
	start_nbdloopd --engine="$engine" --address $address --port "$port" --tls-certificates="$dir/pki" \
		--tls-psk="$dir/alice/keys.psk" --export "x509=$dir/x509.img,allow=cn:alice" --export "psk=$dir/psk.img,allow=psk:alice"
	for kind in x509 psk; do
		use $kind
		qemu_img_keeps_data
		qemu_io_keeps_data
		nbdkit_keeps_data $kind
		libnbd_keeps_data
		quietly cmp "$source" "$dir/$kind.img"
	done
	nbd_client_lists
	reject_log 'disconnected'
	stop_server
}

each_engine keep_data
