#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Over a network with TLS and a pre-shared key, a client that has the key reads and writes the right
# data; a client without TLS, or with another key, gets nothing.
. "$(dirname "$0")/../../lib/functions.sh"
. "$lib/network.sh"

require psktool nbdcopy nbdinfo
connect_two_networks
image=$dir/disk.img
head -c 8M /dev/urandom >"$dir/data"
quietly psktool -u alice -p "$dir/keys.psk"
quietly psktool -u alice -p "$dir/others.psk"

protects()
{
	local export="nbds://alice@$server_address/?tls-psk-file"
	rm -f "$image" "$dir/copy"
	truncate -s 8M "$image"
	start_server --tls=require --tls-psk="$dir/keys.psk" -- "$image" engine="$engine"
	quietly "${client[@]}" nbdcopy --flush "$dir/data" "$export=$dir/keys.psk"
	quietly "${client[@]}" nbdcopy "$export=$dir/keys.psk" "$dir/copy"
	quietly cmp "$dir/data" "$dir/copy"
	quietly cmp "$dir/data" "$image"
	must_fail "${client[@]}" nbdinfo "nbd://$server_address/"
	must_fail "${client[@]}" nbdinfo "$export=$dir/others.psk"
	stop_server
}

each_engine protects
