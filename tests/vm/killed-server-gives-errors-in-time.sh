#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server is killed while its clients write. Without reconnection, the clients' calls end with an
# error, no later than the time limit that was given to nbd-client. The devices can be unmounted and
# detached. With a new server they have all acknowledged data. The same holds for both ways in which
# nbd-client talks to the kernel.
. "$(dirname "$0")/functions.sh"

timeout=10
# The kernel checks its timers every few seconds. It ends the file system's next request only after
# the first one.
limit=60

# Writes files one after another, each with fsync(), until something fails, and reports the failure.
# Durable files are listed.
cat >"$dir/files.py" <<'EOP'
import hashlib, os, random, sys, time

mountpoint, kept = sys.argv[1:]
with open(kept, "w") as list_:
    for i in range(100000):
        since = time.monotonic()
        try:
            data = random.randbytes(random.choice([100, 5000, 200000]))
            with open(f"{mountpoint}/file-{i}", "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
        except OSError as error:
            print(f"after {i} files: {error.strerror}, after {time.monotonic() - since:.1f} s")
            sys.exit(3)
        print(hashlib.sha256(data).hexdigest(), f" file-{i}", file=list_, flush=True)
        if i > 300:
            os.unlink(f"{mountpoint}/file-{i - 300}")
EOP

both_work()
{
	[ -s "$dir/kept" ] && [ "$(wc -l <"$dir/kept")" -ge 5 ] && [ "$(acknowledged "$dir/record")" -ge 16 ]
}

# This limit is not multiplied for slow machines, because the test is about the limit.
ends_in_time() # NAME WHAT
{
	local end=$((SECONDS + limit))
	until process_gone "${process_pids[$1]}"; do
		[ "$SECONDS" -lt $end ] || fail "$2 hangs $limit seconds after the server was killed"
		sleep 0.1
	done
	end_process "$1"
}

in_time() # WHAT COMMAND [ARGUMENT...]
{
	local what=$1
	shift
	spawn command "$@"
	ends_in_time command "$what"
}

start_both()
{
	start_server -- dir="$dir/images" direct-io=on
	attach /dev/nbd0 -b 4096 -N raw.img -timeout $timeout "$@"
	attach /dev/nbd1 -b 4096 -N files.img -timeout $timeout "$@"
}

errors_in_time() # NBD-CLIENT-OPTION...
{
	rm -rf "$dir/images" "$dir/record" "$dir/kept"
	mkdir "$dir/images"
	truncate -s 64M "$dir/images/raw.img" "$dir/images/files.img"
	start_both "$@"
	quietly mke2fs -q -t ext4 /dev/nbd1
	mount /dev/nbd1 "$dir/client"
	spawn writer "$python" "$VM_SOURCE/generations.py" write /dev/nbd0 "$dir/record" 8 $limit
	spawn files "$python" "$dir/files.py" "$dir/client" "$dir/kept"
	wait_until "both write" both_work
	kill_server

	ends_in_time writer "a request to /dev/nbd0"
	expect_equal "status of the writer ($(tail -n 1 "$dir/writer.log"))" 3 "$end_status"
	ends_in_time files "fsync() on /dev/nbd1"
	expect_equal "status of the writer of files ($(tail -n 1 "$dir/files.log"))" 3 "$end_status"
	echo "$*: $(head -n 1 "$dir/writer.log"); files: $(tail -n 1 "$dir/files.log")"
	in_time "umount" umount "$dir/client"
	for device in /dev/nbd0 /dev/nbd1; do
		in_time "nbd-client -d $device" nbd-client -d $device
		unset "attached[$device]"
		wait_until "$device is detached" device_is_gone $device
	done

	start_both "$@"
	quietly "$python" "$VM_SOURCE/generations.py" check /dev/nbd0 "$dir/record"
	mount /dev/nbd1 "$dir/client" || fail "the file system can't be mounted any more"
	(cd "$dir/client" && tail -n 300 "$dir/kept" | sha256sum --quiet -c) >"$dir/sums.log" 2>&1 ||
		fail "a file that had been fsynced is not there"
	umount "$dir/client"
	quietly fsck.ext4 -fn /dev/nbd1
	detach /dev/nbd0
	detach /dev/nbd1
	stop_server
}

mkdir "$dir/client"
errors_in_time
errors_in_time -nonetlink
