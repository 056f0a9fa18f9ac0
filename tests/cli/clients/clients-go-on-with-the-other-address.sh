#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A name with the addresses of two servers is enough for QEMU (reconnect-delay) to go on with the
# second server when the first one is killed, without an error for the guest; and for libnbd to
# connect to the one that is there.  nbdloop-cluster(7) says so.
. "$(dirname "$0")/../../lib/functions.sh"

require_root "a host name of its own"
require qemu-io unshare nbdinfo
image=$dir/disk.img
truncate -s 1M "$image"
# A minimal system has no /etc/hosts in whose place another file could be mounted.
cp -a /etc "$dir/etc"
printf '%s\n' "127.0.0.2 two-servers" "127.0.0.3 two-servers" >>"$dir/etc/hosts"
# shellcheck disable=SC2016 # for the inner shell
named=(unshare --mount "$BASH" -euc 'mount --bind "$1/etc" /etc && shift && exec "$@"' named "$dir")
"${named[@]}" true 2>"$dir/unshare.log" || skip "unshare: $(cat "$dir/unshare.log")"
addresses=$("${named[@]}" getent ahostsv4 two-servers | awk '/STREAM/ {print $1}' | xargs)
[ "$addresses" = "127.0.0.2 127.0.0.3" ] || skip "the names of this machine aren't those of /etc/hosts: $addresses"
port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.2", 0)); print(s.getsockname()[1])')

serve() # NAME ADDRESS
{
	spawn "$1" nbdloopd --address "$2" --port "$port" --tls=off --lock=shared "$image"
	wait_until "$1 listens" eval "nbdinfo --size nbd://$2:$port >/dev/null 2>&1"
}

said() # COUNT
{
	[ "$(grep -c "bytes at offset" "$dir/qemu.log")" = "$1" ]
}

serve first 127.0.0.2
serve second 127.0.0.3
mkfifo "$dir/commands"
exec 9<>"$dir/commands"
spawn qemu "${named[@]}" "$BASH" -c 'exec qemu-io --image-opts "$1" <"$2"' qemu \
	"driver=nbd,server.type=inet,server.host=two-servers,server.port=$port,reconnect-delay=$((60 * time_factor))" "$dir/commands"
echo 'write -P 1 0 64k' >&9
wait_until "QEMU writes" said 1
end_process first KILL
echo 'write -P 2 64k 64k' >&9
wait_until "QEMU goes on" said 2
echo 'read -P 1 0 64k' >&9
wait_until "QEMU reads" said 3
echo quit >&9
end_process qemu
! grep -iE 'error|fail' "$dir/qemu.log" >&2 || fail "QEMU saw an error"
expect_equal "what the image has" "01 02" "$(od -An -tx1 -j 65535 -N 2 "$image" | xargs)"
quietly "${named[@]}" nbdinfo --size "nbd://two-servers:$port"
