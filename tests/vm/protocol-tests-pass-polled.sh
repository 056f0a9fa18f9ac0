#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The protocol tests (tests/nbd) pass with polled I/O, on an NVMe drive with a poll queue. These are
# the polled rows of their table, one for each server, which only a machine with such a drive has.
# vm: nvme poll_queues=1
# vm: memory 1536M
# vm: limit 900
. "$(dirname "$0")/functions.sh"

suites=(errors model neighbours)
# Check's own variables: run only the row that is set below, with more time for each test.
export CK_RUN_CASE CK_TIMEOUT_MULTIPLIER=$NBDLOOP_TIME_FACTOR NBDLOOP_TIME_FACTOR
# Under emulation, several connections that poll on two processors are slow: run fewer rounds.
export LOOP_PART=${LOOP_PART:-16}

run_suite() # SUITE
{
	local program=$top_builddir/tests/nbd/check_$1 start=$SECONDS said row="the row $CK_RUN_CASE"
	[ -x "$program" ] || skip "check_$1 is not built (make -C tests/nbd check_$1)"
	rm -f "$dir/suite.log"
	timeout 600 "$program" >"$dir/suite.log" 2>&1 || fail "check_$1 fails on $row"
	# A suite doesn't fail when the row doesn't exist.
	said=$(grep -E '^100%: Checks: [1-9][0-9]*, Failures: 0, Errors: 0$' "$dir/suite.log") ||
		fail "check_$1 ran no test on $row"
	! grep -F "SKIP: $CK_RUN_CASE" "$dir/suite.log" || fail "check_$1 skips $row"
	echo "$CK_RUN_CASE: check_$1: ${said#100%: }, $((SECONDS - start)) s"
}

# To save time, each kernel runs with one of the servers.
server=nbdloopd
[ "$VM_LINUX" != 6.1 ] || server=plugin
CK_RUN_CASE="$server, io_uring, direct I/O, polled"
for suite in "${suites[@]}"; do
	run_suite "$suite"
done
