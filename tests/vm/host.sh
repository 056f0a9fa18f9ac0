# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What claims with a program beside their machine ("# vm: host") have in common; to be read after
# functions.sh.

host_said() # WHAT
{
	[ -e "/run/vm/host.$1" ] || [ -e /run/vm/host.ended ]
}

host_is_done()
{
	[ ! -e /run/vm/host.request ] || [ -e /run/vm/host.ended ]
}

expect_host()
{
	local status words
	[ -e /run/vm/host.ended ] || return 0
	read -r status words </run/vm/host.ended
	[ "$status" != 77 ] || skip "$words"
	fail "the program beside the machine has ended with status $status: $words"
}

# Sends the program a request, and waits until it is carried out.
host() # WORD...
{
	echo "$*" >/run/vm/host.new
	mv /run/vm/host.new /run/vm/host.request
	wait_until "the host does this: $*" host_is_done
	expect_host
}

# Sets the network card up, behind which 10.0.2.2 is the host's 127.0.0.1, and waits for the
# program. Sets $card.
reach_host()
{
	modprobe vmxnet3
	card=$(ls -I lo /sys/class/net)
	ip address add 10.0.2.15/24 dev "$card"
	ip link set "$card" up
	wait_until "the program beside the machine is ready" host_said ready
	expect_host
}

# After reach_host: leads the guest's 127.0.0.1 to the host's, for servers that give that address to
# their clients.
lead_loopback_to_host()
{
	local setting
	for setting in all "$card"; do
		echo 1 >"/proc/sys/net/ipv4/conf/$setting/route_localnet"
		echo 0 >"/proc/sys/net/ipv4/conf/$setting/rp_filter"
	done
	ip address flush dev lo
	ip route add 127.0.0.1/32 via 10.0.2.2 dev "$card" src 10.0.2.15
}
