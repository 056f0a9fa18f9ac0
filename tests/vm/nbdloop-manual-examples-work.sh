#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The examples of nbdloop(8) and nbdloop-cluster(7) work as they are pasted, one after the other,
# and leave nothing behind.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require jq resize2fs mkfs.ext4
mkdir "$dir/examples" "$dir/here"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop.pod" "$dir/examples" EXAMPLES
for example in "$dir"/examples/[0-9][0-9]; do
	(cd "$dir/here" && timeout 300 "$BASH" -eux "$example") >"$dir/example.log" 2>&1 </dev/null ||
		fail "an example fails: $(basename "$example")"
	expect_nothing_left
	# Some of the examples show these files.
	case $example in
	*/03)
		grep -qE "^/dev/nbd[0-9]+ +0 +0 +0 $dir/here/disk.img +1 +512\$" "$dir/example.log" || fail "no line in the list"
		grep -qE '^/dev/nbd[0-9]+ .* nbdloopd io_uring +1$' "$dir/example.log" || fail "no line with the columns that were added"
		grep -q '^in flight: ' "$dir/example.log" || fail "no status"
		;;
	*/04) grep -q "is now $(((2 << 30) / 4096)) (4k) blocks long" "$dir/example.log" || fail "the file system didn't grow" ;;
	*/05) grep -qx $((100 << 20)) "$dir/example.log" || fail "the part has another size" ;;
	esac
done

mkdir "$dir/cluster"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-cluster.pod" "$dir/cluster" "Try it on one machine"
(cd "$dir/here" && timeout 300 "$BASH" -eux "$dir/cluster/01") >"$dir/example.log" 2>&1 </dev/null || fail "the cluster's example fails"
grep -qE '^/dev/nbd[0-9]+ localhost:10810$' "$dir/example.log" || fail "the second server isn't in use"
wait_until "nothing of the example runs" no_process
expect_nothing_left
