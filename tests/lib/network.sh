# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the scripts that source this use the variables
# A server and a client on two machines, as far as one machine can play them: each has a network
# namespace, and a cable connects the two. Sourced after functions.sh; needs root.

# Afterwards a new server listens on TCP at $server_address, and "${client[@]}" runs a command on
# the client's machine.
connect_two_networks()
{
	local server_space=nbdloop-$$-s client_space=nbdloop-$$-c
	require_root "network namespaces"
	require ip
	server_address=10.99.0.1
	ip netns add "$server_space" 2>"$dir/netns.log" ||
		skip "cannot make a network namespace: $(cat "$dir/netns.log")"
	on_exit ip netns delete "$server_space"
	ip netns add "$client_space"
	on_exit ip netns delete "$client_space"
	ip -n "$server_space" link add cable type veth peer name cable netns "$client_space"
	ip -n "$server_space" address add "$server_address/24" dev cable
	ip -n "$server_space" link set cable up
	ip -n "$client_space" address add 10.99.0.2/24 dev cable
	ip -n "$client_space" link set cable up
	server_prefix=(ip netns exec "$server_space")
	server_listen=(-i "$server_address" -p 10809)
	client=(ip netns exec "$client_space")
}
