# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the claims about image files on NFS have in common: a file server and two clients of it.  To
# be read after functions.sh; then make_file_server FILE... makes all.  The file server's files are
# in $exported, and the clients see them in $dir/c1 and $dir/c2; the clients' cables are cable1 and
# cable2.

exported=$dir/exported
nfsd=$dir/nfsd
lease=10 # seconds; the shortest that there is

# ---- the file server is this machine, and each client another one, with a network and a name of
# its own

make_client() # NUMBER
{
	local name=nbdloop-c$1
	ip netns add "$name"
	on_exit ip netns delete "$name"
	ip link add "cable$1" type veth peer name cable netns "$name"
	ip address add "10.99.$1.1/24" dev "cable$1"
	ip link set "cable$1" up
	ip -n "$name" address add "10.99.$1.2/24" dev cable
	ip -n "$name" link set cable up
}

mount_on_client() # NUMBER
{
	mkdir "$dir/c$1"
	# shellcheck disable=SC2016 # for the inner shell
	quietly unshare --uts sh -c 'hostname "$1" && exec nsenter --net="/run/netns/$1" mount -i -t nfs4 -o "$2" "$3" "$4"' sh \
		"nbdloop-c$1" "vers=4.2,addr=10.99.$1.1,clientaddr=10.99.$1.2" "10.99.$1.1:/" "$dir/c$1"
	on_exit umount -f -l "$dir/c$1"
}

# What rpc.mountd would answer, the kernel is told beforehand: who the clients are, what they get
# (insecure, no_subtree_check, fsid=0), and that this is the root of what they see.
tell_exports()
{
	local forever=2147483647 i
	for i in 1 2; do
		echo "nfsd 10.99.$i.2 $forever client" >/proc/net/rpc/auth.unix.ip/channel
	done
	echo "client $exported $forever $((0x2 | 0x400 | 0x2000)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
	printf 'client 1 \\x00000000 %s %s\n' "$forever" "$exported" >/proc/net/rpc/nfsd.fh/channel
}

start_file_server()
{
	echo "-2 -3 +4" >"$nfsd/versions"
	echo $lease >"$nfsd/nfsv4leasetime"
	echo $lease >"$nfsd/nfsv4gracetime"
	echo "$dir/recovery" >"$nfsd/nfsv4recoverydir"
	echo "tcp 2049" >"$nfsd/portlist"
	tell_exports
	echo 4 >"$nfsd/threads"
}

# No client has anything to reclaim.
end_grace()
{
	echo Y >"$nfsd/v4_end_grace"
}

stop_file_server()
{
	[ ! -e "$nfsd/threads" ] || echo 0 >"$nfsd/threads"
}

# Makes empty image files of 16 MiB, and all that serves them.
make_file_server() # FILE...
{
	local file
	modprobe nfsd
	modprobe nfsv4 || skip "this kernel has no NFS client"
	mkdir "$exported" "$nfsd" "$dir/recovery"
	for file; do
		truncate -s 16M "$exported/$file"
	done
	mount -t nfsd nfsd "$nfsd"
	on_exit umount "$nfsd"
	on_exit stop_file_server
	make_client 1
	make_client 2
	start_file_server
	end_grace
	mount_on_client 1
	mount_on_client 2
}

# Whether a file of the file server has this byte everywhere in its first MiB.
file_has() # FILE BYTE
{
	[ "$(head -c 1M "$exported/$1" | tr -d "\\00$2" | wc -c)" = 0 ]
}
