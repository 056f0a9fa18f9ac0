#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The answers of nbdloop-tutorial(7) that need no device work as they are pasted, in their order.
. "$(dirname "$0")/../../lib/functions.sh"

require_root "a network and processes of its own"
require_nbdloop
require unshare ip nbdinfo nbdcopy qemu-img qemu-system-x86_64
unshare --net --pid --fork --mount-proc true 2>"$dir/unshare.log" || skip "unshare: $(cat "$dir/unshare.log")"
export PATH=$top_builddir/server:$top_builddir/tool:$PATH

mkdir "$dir/answers" "$dir/here"
"$python" "$lib/examples.py" "$lib/../../man/nbdloop-tutorial.pod" "$dir/answers" "HOW DO I ... WITH A SERVER"
for image in disk db golden; do
	truncate -s 64M "$dir/here/$image.img"
done
qemu-img create -q -f qcow2 "$dir/here/guest.qcow2" 64M

# QEMU runs without a window, and only until it has opened the drive.
cat "$dir"/answers/[0-9][0-9] | sed -E \
	-e '/^qemu-system/s/$/ -display none -S -monitor stdio <<<quit/' >"$dir/all"
# shellcheck disable=SC2016 # for the inner shell
(cd "$dir/here" && timeout $((200 * time_factor)) unshare --net --pid --fork --mount-proc --kill-child \
	"$BASH" -eux -o pipefail -c 'ip link set lo up; . "$1"' answers "$dir/all") >"$dir/answers.log" 2>&1 </dev/null ||
	fail "an answer fails: $(tail -n 5 "$dir/answers.log")"
! grep -E '"error"|[Cc]ould not' "$dir/answers.log" >&2 || fail "an answer complains"
grep -qx $((128 << 20)) "$dir/answers.log" || fail "the export did not grow"
[ "$(find "$dir/here/backups" -name '*.delta' | wc -l)" -eq 2 ] || fail "there are not two backups"

# Each question of the index has an answer.
"$python" - "$lib/../../man/nbdloop-tutorial.pod" <<'EOF' || fail "the index and the answers differ"
import re
import sys
with open(sys.argv[1], encoding="utf-8") as manual:
    text = manual.read()
asked = re.findall(r"^\t(\S.*\?) +(\d+)$", text, re.M)
answered = re.findall(r"^=head2 (\d+)\. (.*\?)$", text, re.M)
assert len(asked) == 20
assert [(number, question.lower()) for question, number in asked] == \
    [(number, question.lower()) for number, question in answered], (asked, answered)
EOF
