#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd's page in a real browser tells what the status tells, with 5, 60 and 1 exports, hostile
# names stay text, figures of a server that is gone are grey, and a long run of changes takes no
# more memory.
#
#	NBDLOOP_PICTURES  a directory for pictures of the page, to look at
. "$(dirname "$0")/../lib/functions.sh"

require_python_nbd
require_http
browser=$(command -v chromium-headless-shell || command -v chromium) || skip "there is no Chromium"
export PATH=$top_builddir/wrapper:$PATH
pictures=${NBDLOOP_PICTURES:-$dir}
user='<img src=x onerror=alert(1)>'
hostile=$'<b>bold</b>"\'&\xe2\x80\xaetxt.<script>alert(2)</script>'

truncate -s 64M "$dir/disk.img" "$dir/other.img" "$dir/slow.img" "$dir/only.img" "$dir/guest.img"
printf 'QFI\373\0\0\0\3' | dd of="$dir/guest.img" conv=notrunc status=none
(umask 077 && echo 0123456789abcdef-token >"$dir/token" && printf '%s:%064d\n' "$user" 7 >"$dir/keys.psk")
start_nbdloopd --control "$dir/control" --http=127.0.0.1:0 --http-token="$dir/token" --threads=2 --port="$(free_port)" \
	--tls-psk="$dir/keys.psk" --tls=allow --export "disk=$dir/disk.img,description=$user" --export "$hostile=$dir/other.img" \
	--export "slow=$dir/slow.img,iops-limit=20" --export "only=$dir/only.img,read-only=on" --export "guest=$dir/guest.img"
address=$(sed -n 's,.*page and metrics on \(http://.*\)$,\1,p' "$log")
timeout $((300 * time_factor)) "$python" "$(dirname "$0")/page-tells-the-status.py" "$browser" "$address" "$sock" "$dir/control" "$dir/keys.psk" "$pictures" "$pid" \
	>"$dir/page.log" 2>&1 || fail "$(tail -n 3 "$dir/page.log")"
cat "$dir/page.log"
