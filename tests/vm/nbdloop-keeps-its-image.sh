#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: drive 64M
# A device keeps the image that it was attached to, whatever happens to the image's name. If another
# file takes the name, the next server does not serve that file, nothing is written to it, and
# --nooverlap does not mistake it for the image. An image that has lost its name is still served.
# The same holds when the name is given to another file just before a server opens it.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

image=$dir/disk.img
other=$dir/other.img

# dd writes to the device and to a file that holds the expected contents of its image.
write_something() # OFFSET-IN-MIB
{
	head -c 1M /dev/urandom >"$dir/data"
	quietly dd if="$dir/data" of="$device" bs=1M seek="$1" oflag=direct
	quietly dd if="$dir/data" of="$dir/wanted.img" bs=1M seek="$1" conv=notrunc
}

expect_image() # WHAT
{
	drop_cache "$device"
	quietly cmp "$dir/wanted.img" "$device" || fail "$1: the device has other bytes"
	quietly sha256sum -c "$dir/other.sum" || fail "$1: another file was written to"
}

another_server() # PID
{
	local now
	now=$(server_pid "$device" 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$1" ]
}

new_server()
{
	local pid
	pid=$(server_pid "$device")
	kill -KILL "$pid"
	wait_until "there is another server than $pid" another_server "$pid"
}

expect_listed() # FILE
{
	expect_equal "image in the list" "$1" "$(nbdloop list -n -O BACK-FILE "$device" | sed 's/ *$//')"
}

keeps() # SERVER
{
	local old=$dir/old.img second
	rm -f "$image" "$other" "$old"
	head -c 16M /dev/urandom >"$image"
	head -c 16M /dev/urandom >"$other"
	cp "$image" "$dir/wanted.img"
	sha256sum "$other" >"$dir/other.sum"
	nbdloop_attach --server="$1" --dead-timeout 600 "$image"
	echo 1000 >"/sys/block/${device#/dev/}/queue/io_timeout"
	write_something 1

	# Replace the file as many programs do when they save.
	mv "$image" "$old"
	cp "$other" "$image"
	sha256sum "$other" "$image" >"$dir/other.sum"
	new_server
	write_something 2
	expect_image "$1, another file has its name"
	expect_listed "$old"
	quietly cmp "$dir/wanted.img" "$old"

	# --nooverlap does not go by the name.
	second=$(nbdloop attach --show --nooverlap "$image" 2>"$dir/attach.log") || fail "nbdloop attach --nooverlap fails"
	[ "$second" != "$device" ] || fail "--nooverlap takes a file for another one that had its name"
	nbdloop_detach "$second"
	expect_equal "device of the renamed image" "$device" "$(nbdloop attach --show --nooverlap "$old" 2>&1)"

	# A symbolic link to a file that must not be written to.
	rm "$image"
	sha256sum "$other" >"$dir/other.sum"
	ln -s "$other" "$image"
	new_server
	write_something 3
	expect_image "$1, a link has its name"

	rm "$old" "$image"
	quietly nbdloop replace-server "$device"
	write_something 4
	new_server
	write_something 5
	expect_image "$1, it has no name"
	expect_listed "$old (deleted)"
	nbdloop_detach "$device"
	expect_nothing_left
}

# Another file takes the image's name between the guard's last look at it and the server's first:
# each server is started by a script that exchanges the files.
keeps_from_the_start() # SERVER
{
	local program
	program=$(type -P "$1")
	rm -f "$image" "$other" "$dir/old.img"
	head -c 16M /dev/urandom >"$other"
	head -c 16M /dev/urandom >"$image"
	cp "$image" "$dir/wanted.img"
	sha256sum "$other" >"$dir/other.sum"
	mkdir -p "$dir/bin"
	cat >"$dir/bin/$1" <<-end
		#!/bin/bash
		[ -e "$dir/old.img" ] || { mv "$image" "$dir/old.img" && mv "$other" "$image"; }
		exec "$program" "\$@"
	end
	chmod +x "$dir/bin/$1"
	PATH=$dir/bin:$PATH nbdloop_attach --server="$1" --dead-timeout 600 "$image"
	mv "$image" "$other"
	write_something 1
	expect_image "$1, the name was changed while its first server was started"
	expect_listed "$dir/old.img"
	mv "$dir/old.img" "$image"
	new_server
	mv "$image" "$other"
	write_something 2
	expect_image "$1, the name was changed while its next server was started"
	expect_listed "$dir/old.img"
	nbdloop_detach "$device"
	rm -rf "$dir/bin"
	expect_nothing_left
}

modprobe nbd
keeps_from_the_start nbdloopd
keeps_from_the_start nbdkit
# The guard gives both servers the image in the same way, as the start has shown.
keeps nbdloopd

# For a block device, the size counts, too.
drive=$(drive_device 1)
nbdloop_attach "$drive"
nbdloop_refuses "another part of it, which overlaps, is attached already, as $device; detach that$" attach --nooverlap --sizelimit 1M "$drive"
expect_equal "device of the drive" "$device" "$(nbdloop attach --show --nooverlap "$drive" 2>&1)"
nbdloop_detach "$device"
expect_nothing_left
