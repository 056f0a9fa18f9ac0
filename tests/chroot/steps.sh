# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by build-packages and try-packages, in the top directory of an unpacked release: steps,
# each a test with a result in built/, as automake would leave it there.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
mkdir -p built

# step NAME FUNCTION: the result is that of the function, in which set -e is on
step()
{
	local status=0 start=$SECONDS word=PASS
	(set -eu -o pipefail; "$2") >"built/$1.log" 2>&1 </dev/null & # not in a condition: -e would be off
	wait $! || status=$?
	test "$status" -eq 0 || word=FAIL
	echo "$1 took $((SECONDS - start)) s" | tee -a "built/$1.log"
	echo "$word: $1" >>"built/$1.log"
	echo ":test-result: $word" >"built/$1.trs"
	test "$word" = PASS || { tail -n 40 "built/$1.log" >&2; exit 1; }
}
