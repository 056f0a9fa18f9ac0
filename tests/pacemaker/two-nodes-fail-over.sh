#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two nodes of a Pacemaker cluster run nbdloopd as nbdloop-cluster(7) says, in namespaces of this
# machine.  The node that serves is paused, as a machine that hangs, while a client sends a write to
# it.  The other node must fence it, and only then serve; the client must see no error, and
# the image must have the write.
#
# As root, on Debian: it installs Pacemaker and what that needs, which takes a minute, in a layer
# over the root directory that is gone at the end.
. "$(dirname "$0")/../lib/functions.sh"

require_root "namespaces and mounts"
require unshare nsenter ip apt-get qemu-io
stage=${1-}
own=$(realpath "$0")
layer=/mnt

# First in mounts and processes of its own, then in a network of its own, too: everything ends, and
# is gone, with this process.
case $stage in
'')
	unshare --mount --pid --fork --kill-child --mount-proc "$BASH" "$own" install && exit 0
	exit $?
	;;
install)
	mount -t tmpfs -o size=2G tmpfs $layer
	mkdir -p $layer/{changes,work,root}
	mount -t overlay overlay -o lowerdir=/,upperdir=$layer/changes,workdir=$layer/work $layer/root
	mount --rbind /dev $layer/root/dev
	mount -t proc proc $layer/root/proc
	mount -t tmpfs tmpfs $layer/root/run
	mount -t tmpfs tmpfs $layer/root/tmp
	# Debian starts no daemon then.
	printf '#!/bin/sh\nexit 101\n' >$layer/root/usr/sbin/policy-rc.d
	chmod +x $layer/root/usr/sbin/policy-rc.d
	DEBIAN_FRONTEND=noninteractive chroot $layer/root apt-get install -y -qq --no-install-recommends \
		pacemaker corosync pcs pacemaker-cli-utils >"$dir/install.log" 2>&1 || fail "Pacemaker can't be installed"
	unshare --net "$BASH" "$own" cluster && exit 0
	exit $?
	;;
esac

# ---- the nodes

share=$dir/share
mkdir "$share"
chmod 755 "$share"
image=$share/disk.img
truncate -s 8M "$image"
program_directory=$(sed -n 's|^program=.*:-\(.*\)/nbdloopd}|\1|p' "$top_builddir/tool/ocf/nbdloopd")
declare -A node_pids=()

make_network()
{
	local name
	mount -t tmpfs tmpfs /run
	ip link set lo up
	ip link add bridge type bridge
	ip addr add 10.98.0.100/24 dev bridge
	ip link set bridge up
	for name in a b; do
		ip netns add $name
		ip link add link-$name type veth peer name cable netns $name
		ip link set link-$name master bridge up
		ip -n $name link set lo up
		ip -n $name link set cable up
	done
	ip -n a addr add 10.98.0.1/24 dev cable
	ip -n b addr add 10.98.0.2/24 dev cable
}

# A fence agent: it asks this script to power a node off, and waits until that is done.
write_fence_agent() # FILE
{
	cat >"$1" <<-'END'
		#!/bin/sh
		while read -r line; do
			case $line in
			action=*) action=${line#action=} ;;
			nodename=*) node=${line#nodename=} ;;
			esac
		done
		case $action in
		metadata) echo '<resource-agent name="fence_test" shortdesc="-"><longdesc>-</longdesc><parameters></parameters>
			<actions><action name="off"/><action name="reboot"/><action name="monitor"/><action name="metadata"/></actions></resource-agent>' ;;
		off | reboot)
			: >"/srv/images/off-$node"
			while [ -e "/srv/images/off-$node" ]; do sleep 0.1; done
			;;
		esac
		exit 0
	END
	chmod +x "$1"
}

write_corosync_configuration()
{
	printf '%s\n' 'totem {' 'version: 2' 'cluster_name: test' 'transport: udpu' "token: $((2000 * time_factor))" '}' \
		'nodelist {' 'node {' 'ring0_addr: 10.98.0.1' 'name: a' 'nodeid: 1' '}' \
		'node {' 'ring0_addr: 10.98.0.2' 'name: b' 'nodeid: 2' '}' '}' \
		'quorum {' 'provider: corosync_votequorum' 'two_node: 1' '}' \
		'logging {' 'to_logfile: yes' 'to_syslog: no' "logfile: /srv/images/corosync-$1.log" '}'
}

# Sets $root, the root directory of a node, and makes it.
make_root() # NAME
{
	root=$layer/$1/root
	mkdir -p $layer/"$1"/{changes,work,root}
	mount -t overlay overlay -o lowerdir=$layer/changes:/,upperdir=$layer/"$1"/changes,workdir=$layer/"$1"/work "$root"
	mount -t tmpfs tmpfs "$root/run"
	mount -t tmpfs tmpfs "$root/tmp"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/dev/shm"
	mkdir -p "$root/srv/images" "$root$top_builddir" "$root/usr/lib/ocf/resource.d/nbdloop" "$root$program_directory"
	mount --bind "$share" "$root/srv/images"
	mount --rbind "$top_builddir" "$root$top_builddir"
	ln -sf "$top_builddir/server/nbdloopd" "$top_builddir/tool/nbdloop" "$root$program_directory"
	cp "$top_builddir/tool/ocf/nbdloopd" "$root/usr/lib/ocf/resource.d/nbdloop"
	write_fence_agent "$root/usr/sbin/fence_test"
	write_corosync_configuration "$1" >"$root/etc/corosync/corosync.conf"
	printf '%s\n' "PCMK_logfile=/srv/images/pacemaker-$1.log" PCMK_logfacility=none >"$root/etc/default/pacemaker"
}

start_node() # NAME
{
	local root
	make_root "$1"
	# shellcheck disable=SC2016 # for the inner shell
	spawn "node-$1" ip netns exec "$1" unshare --pid --fork --uts --kill-child --mount-proc="$root/proc" sh -c \
		'hostname "$1"; exec chroot "$2" sh -c "set -a; . /etc/default/pacemaker; corosync; exec pacemakerd"' sh "$1" "$root"
	wait_until "node $1 begins" eval "pgrep -P $pid >/dev/null"
	node_pids[$1]=$(pgrep -P "$pid")
}

on_node() # NAME COMMAND [ARGUMENT...]
{
	local name=$1
	shift
	nsenter -t "${node_pids[$name]}" -n -u -p chroot "$layer/$name/root" "$@"
}

# Powers a node off when the cluster wants it, as its fencing device would.
serve_fencing()
{
	local name
	while sleep 0.1; do
		for name in a b; do
			[ -e "$share/off-$name" ] || continue
			kill -KILL "${node_pids[$name]}"
			until process_gone "${node_pids[$name]}"; do sleep 0.05; done
			echo "$name" >>"$share/fenced"
			rm "$share/off-$name"
		done
	done
}

both_are_online()
{
	on_node a crm_mon -1 2>/dev/null | grep 'Online: \[ a b \]' >/dev/null
}

answers() # ADDRESS
{
	"$top_builddir/tool/nbdloop" check --timeout 1 "nbd://$1/disk" 2>/dev/null
}

pause_node() # NAME
{
	local space process
	space=$(readlink "/proc/${node_pids[$1]}/ns/pid")
	for process in /proc/[0-9]*; do
		[ "$(readlink "$process/ns/pid" 2>/dev/null)" != "$space" ] || kill -STOP "${process#/proc/}"
	done
}

# ---- the test

make_network
start_node a
start_node b
spawn fencing serve_fencing
poll_for 120 both_are_online || fail "the nodes don't see each other"
# The manual's commands, but for the fencing device.
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-cluster.pod" "$share" "An image on a shared file system"
grep '^pcs resource create' "$share/01" >"$share/commands" || fail "the manual has no such command"
for node in a b; do
	on_node a pcs stonith create fence-$node fence_test pcmk_host_list=$node pcmk_host_check=static-list --force \
		>"$dir/pcs.log" 2>&1 || fail "pcs takes no fencing device"
done
on_node a sh -e /srv/images/commands >"$dir/pcs.log" 2>&1 || fail "the manual's command fails"
poll_for 120 eval 'answers 10.98.0.1 || answers 10.98.0.2' || fail "no node serves"
serving=a other=b other_address=10.98.0.2
! answers 10.98.0.2 || serving=b other=a other_address=10.98.0.1

cp /etc/hosts "$dir/hosts"
printf '%s\n' '10.98.0.1 two-servers' '10.98.0.2 two-servers' >>"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
mkfifo "$dir/commands"
exec 9<>"$dir/commands"
# shellcheck disable=SC2016 # for the inner shell
spawn qemu "$BASH" -c 'exec qemu-io --image-opts "$1" <"$2"' qemu \
	driver=nbd,server.type=inet,server.host=two-servers,server.port=10809,export=disk,reconnect-delay=600 "$dir/commands"
echo 'write -P 1 0 64k' >&9
wait_until "the client writes" grep -q 'bytes at offset' "$dir/qemu.log"

started=$(date +%s%3N)
pause_node $serving
echo 'write -P 2 0 64k' >&9
poll_for 120 answers $other_address || fail "node $other doesn't serve"
echo "node $other serves $(($(date +%s%3N) - started)) ms after node $serving was paused"
expect_equal "fenced nodes" $serving "$(cat "$share/fenced")"
echo quit >&9
end_process qemu
expect_equal "the client's writes" 2 "$(grep -c 'bytes at offset' "$dir/qemu.log")"
expect_equal "what the image has" "02 02" "$(od -An -tx1 -N 2 "$image" | xargs)"
