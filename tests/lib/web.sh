# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Images on web servers; sourced after functions.sh.

[ -x "$top_builddir/engine/nbdloop-fetch" ] || skip "built without libcurl"
# Servers of these tests are asked directly.
unset http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY

# Has later requests to the server answered in that way: see range_server.py.
web_mode() # WORD
{
	echo "$1" >"$dir/mode.new"
	mv "$dir/mode.new" "$dir/mode"
}

# Starts tests/lib/range_server.py, with $dir/NAME.log for its requests; sets web_port.
start_web() # NAME FILE [CERTIFICATE KEY]
{
	local name=$1
	shift
	rm -f "$dir/$name.port"
	spawn "$name" "$python" "$lib/range_server.py" "$1" "$dir/mode" "$dir/$name.port" "${@:2}"
	wait_until "the web server listens" test -e "$dir/$name.port"
	web_port=$(cat "$dir/$name.port")
}
