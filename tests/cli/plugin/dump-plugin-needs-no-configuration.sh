#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit --dump-plugin, without any key, prints the version, every engine, and the engine that
# engine=auto chooses here, which is also the one that serves.
. "$(dirname "$0")/../../lib/functions.sh"

require nbdinfo
facts=$(nbdkit --dump-plugin "$plugin") || fail "nbdkit --dump-plugin fails"

fact() # NAME
{
	sed -n "s/^$1=//p" <<<"$facts"
}

expect_equal name loop "$(fact name)"
expect_equal magic_config_key file "$(fact magic_config_key)"
expect_equal thread_model parallel "$(fact thread_model)"
[ -n "$(fact loop_version)" ] || fail "no loop_version"
for engine in io_uring aio threads; do
	case $(fact "loop_engine_$engine") in
	yes | no*) ;;
	*) fail "loop_engine_$engine is neither yes nor no" ;;
	esac
done
expect_equal loop_engine_threads yes "$(fact loop_engine_threads)"

chosen=$(fact loop_engine)
truncate -s 1M "$dir/disk.img"
start_server -- "$dir/disk.img"
connect_once
stop_server
expect_log "disk\.img: .*engine ${chosen}[ ,]"

# The output shows what the machine allows, not what was compiled in.
facts=$("$(lib_program forbid_syscall)" io_uring_setup=EPERM -- nbdkit --dump-plugin "$plugin")
expect_equal "loop_engine without io_uring" aio "$(fact loop_engine)"
