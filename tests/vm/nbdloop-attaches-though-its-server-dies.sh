#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server dies of the kernel's first request, while its device is being attached. It is restarted
# at once: attach succeeds, with the partitions that the kernel was looking for, and nobody sees an
# error.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require sfdisk
image=$dir/disk.img
head -c 16M /dev/urandom >"$image"
sfdisk -q "$image" <<<$'label: dos\n1M,4M'
modprobe nbd

# The first two servers die, the third works.
mkdir "$dir/bin"
cat >"$dir/bin/nbdloopd" <<-end
	#!/bin/bash
	for i in 1 2; do
		! mkdir "$dir/died.\$i" 2>/dev/null || exec "$python" "$(dirname "$0")/dying_server.py" \$((16 << 20))
	done
	exec "$(type -P nbdloopd)" "\$@"
end
chmod +x "$dir/bin/nbdloopd"
mark_kernel_log
started=$SECONDS
PATH=$dir/bin:$PATH nbdloop_attach --dead-timeout=600 --partscan "$image"
[ -e "$dir/died.2" ] || fail "no server has died: this test tests nothing"
[ $((SECONDS - started)) -lt 120 ] || fail "it was attached only after $((SECONDS - started)) seconds"
[ -b "${device}p1" ] || fail "there is no ${device}p1"
quietly cmp "$image" "$device"
grep -q 'is started again' "$dir/attach.log" || fail "attach doesn't say that the server has died"
# The guard watches the working server as usual.
before=$(server_pid "$device")
kill -KILL "$before"
drop_cache "$device"
quietly cmp "$image" "$device"
[ "$(server_pid "$device")" != "$before" ] || fail "it is the same server"
! kernel_log | grep 'I/O error' || fail "the kernel had I/O errors"
nbdloop_detach "$device"
expect_nothing_left
