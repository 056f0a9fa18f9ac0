# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A stage of ./check: a command that leaves test results in some directories, its log, its time, and
# the lines that tell how it ended. Sourced by bash, in the top of the tree.

passed=0 failed=0 skipped=0
declare -A beside beside_pid
logs=$PWD/build/logs
rm -rf "$logs"
mkdir -p "$logs"

# results KINDS DIRECTORIES: a line for each of the tests in them that ended so (FAIL|ERROR), as
# automake noted it: in SUITE.trs, and by name in SUITE.log.  A script says why in a line "SCRIPT:
# REASON".
results()
{
	local trs name count names
	result_files "$2" | sort | while read -r trs; do
		count=$(grep -cE "^:test-result: ($1)( |\$)" "$trs" || true)
		test "$count" -gt 0 || continue
		name=$(basename "$trs" .trs)
		names=$(grep -aE "^($1): ([^ ]*/)?$name( |\$)" "${trs%.trs}.log" || true)
		if [ "$(grep -c . <<<"$names")" -eq "$count" ]; then
			sed -E 's/^[A-Z]+: //' <<<"$names"
		else
			names=$(grep -am 1 "^$name\.sh: " "${trs%.trs}.log" || tail -n 2 "${trs%.trs}.log" | head -n 1)
			yes "$name: ${names#"$name.sh: "}" | head -n "$count" || true
		fi
	done
}

# In some of the directories, which a stage that has failed may not have made.
result_files() # DIRECTORIES
{
	# shellcheck disable=SC2086 # one word per directory
	find $1 -name '*.trs' 2>/dev/null || true
}

# show_logs DIRECTORIES LOG: the last lines of the logs of what failed, or of a command that left
# none
show_logs()
{
	local file files
	files=$(result_files "$1" | xargs -r grep -lE '^:test-result: (FAIL|ERROR|XPASS)' | sed 's/\.trs$/.log/' | sort || true)
	for file in $(head -n 5 <<<"${files:-$2}"); do
		echo "  $file ends with:"
		tail -n 25 "$file" | cut -c 1-200 | sed 's/^/  | /'
	done
	# No test failed, or not only tests: make goes on after an error, whose cause is not at the
	# end then.
	if [ -z "$files" ] && grep -aqF ' *** ' "$2"; then
		echo "  make's first error in it:"
		grep -aF -m 1 -B 12 ' *** ' "$2" | cut -c 1-200 | sed 's/^/  | /'
	fi
	echo "  The log of all of it is $2"
}

# In a chroot they are root's.
forget_results() # DIRECTORIES
{
	local directory
	for directory in $1; do
		test ! -d "$directory" || find "$directory" -name '*.trs' -delete 2>/dev/null ||
			as_root find "$directory" -name '*.trs' -delete
	done
}

log_of() # WHAT
{
	echo "$logs/${1//[^a-zA-Z0-9]/-}.log"
}

# timed FILE COMMAND [ARGUMENT...]: runs a command, and writes its status, the seconds it took, and
# those of a processor that it and its children used, into a file: without QEMU's, whose machines
# are nobody's children.
timed()
(
	file=$1 start=$SECONDS status=0
	shift
	"$@" || status=$?
	times >"$file.times"
	echo "$status $((SECONDS - start)) $(awk '{for (i = 1; i < 3; i++) {split($i, t, "m"); s += 60 * t[1] + t[2]}} END {printf "%d", s}' "$file.times") $*" >"$file"
)

# stage WHAT DIRECTORIES COMMAND [ARGUMENT...]: runs a command that leaves test results in
# DIRECTORIES; prints one line, and what failed
stage()
{
	local what=$1 directory=$2 log
	shift 2
	log=$(log_of "$what")
	forget_results "$directory"
	timed "$log.status" "$@" >"$log" 2>&1 </dev/null
	report "$what" "$directory"
}

# begin WHAT DIRECTORIES COMMAND [ARGUMENT...]: the same, beside the stages until finish WHAT.
# Nothing of theirs is in DIRECTORIES.
begin()
{
	local what=$1 log
	shift
	log=$(log_of "$what")
	beside[$what]=$1
	forget_results "$1"
	set -m # a process group of its own
	timed "$log.status" "${@:2}" >"$log" 2>&1 </dev/null &
	beside_pid[$what]=$!
	set +m
}

finish() # WHAT
{
	wait "${beside_pid[$1]}" || true
	report "$1" "${beside[$1]}"
}

# What still runs when this script is ended early, with its children.
end_background()
{
	local job
	for job in $(jobs -pr); do
		kill -- "-$job" 2>/dev/null || true
	done
}

report() # WHAT DIRECTORIES
{
	local what=$1 directory=$2 status seconds cpu command good bad none line log
	log=$(log_of "$what")
	read -r status seconds cpu command <"$log.status"
	results 'PASS|XFAIL' "$directory" >"$log.passed"
	results 'FAIL|ERROR|XPASS' "$directory" >"$log.failed"
	results SKIP "$directory" >"$log.skipped"
	good=$(wc -l <"$log.passed") bad=$(wc -l <"$log.failed") none=$(wc -l <"$log.skipped")
	if [ "$status" -eq 0 ] && [ $((good + bad + none)) -eq 0 ]; then
		echo "no test ran" >>"$log.failed"
		bad=1
	elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
		echo "status $status of: $command" >>"$log.failed"
		bad=1
	fi
	if [ "${CI:-}" = true ]; then
		sed "s/^/$what: /" "$log.skipped" | grep -vEf <(grep '^[^#]' .ci/may-skip) | sed 's/$/ (skipped)/' >>"$log.failed" || true
		none=$((none - $(wc -l <"$log.failed") + bad))
		bad=$(wc -l <"$log.failed")
	fi
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + none))
	line="$what: $good passed"
	test "$none" -eq 0 || line="$line, $none skipped"
	test "$bad" -eq 0 || line="$line, $bad FAILED"
	echo "$line ($seconds s, CPU $cpu s)"
	if [ "$none" -gt 0 ]; then
		cut -c 1-200 "$log.skipped" | sed 's/^/  skipped: /'
	fi
	sed -n 's/^.*(a second time: .*/  tried again: &/p' "$log.passed" | cut -c 1-200
	if [ "$bad" -gt 0 ]; then
		show_logs "$directory" "$log"
		# At the end: the log of a stage that runs this script is shown from its end, too.
		cut -c 1-200 "$log.failed" | sed 's/^/  failed: /'
	fi
}
