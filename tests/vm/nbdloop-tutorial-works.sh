#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The commands of nbdloop-tutorial(7) work as they are pasted, one part after the other, show what
# the manual says, and leave nothing behind.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"

require mkfs.ext4 nbdinfo resize2fs
mkdir "$dir/examples" "$dir/here"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-tutorial.pod" "$dir/examples" "FIRST STEPS"
modprobe tls 2>/dev/null || true
for example in 01 02 03 04; do
	# At most ten lines, as promised.
	[ "$(wc -l <"$dir/examples/$example")" -le 10 ] || fail "the part $example has more than ten lines"
	(cd "$dir/here" && timeout 200 "$BASH" -eu "$dir/examples/$example") >"$dir/example.log" 2>&1 </dev/null ||
		fail "part $example fails"
	wait_until "nothing of the example runs" no_process
	expect_nothing_left
	case $example in
	01) grep -qE '^nbdloop top - .* 1 device, ' "$dir/example.log" || fail "nbdloop top does not show the device" ;;
	02)
		grep -qx $((256 << 20)) "$dir/example.log" || fail "the export has another size"
		grep -qx hello "$dir/example.log" || fail "the export has other data"
		;;
	03)
		grep -q ' 1\.3 ' "$dir/example.log" || fail "the connection is not encrypted"
		grep -qx hello "$dir/example.log" || fail "the encrypted export has other data"
		;;
	04) [ "$(find "$dir/here/backups" -name '*.delta' | wc -l)" -eq 2 ] || fail "there are not two backups" ;;
	esac
done

# The answers that use a device follow each other, too.
mkdir "$dir/answers"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-tutorial.pod" "$dir/answers" "HOW DO I ... WITH A DEVICE"
cat "$dir"/answers/[0-9][0-9] >"$dir/all"
(cd "$dir/here" && timeout 200 "$BASH" -eux "$dir/all") >"$dir/example.log" 2>&1 </dev/null || fail "an answer fails"
grep -q "is now $(((128 << 20) / 4096)) (4k) blocks long\|is now $(((128 << 20) / 1024)) (1k) blocks long" "$dir/example.log" ||
	fail "the file system did not grow"
wait_until "nothing of the answers runs" no_process
expect_nothing_left
