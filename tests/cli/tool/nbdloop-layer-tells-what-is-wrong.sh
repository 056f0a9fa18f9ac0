#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloop layer info shows the files of a chain, check says what is wrong with them, by its exit
# status, too, and each command refuses what would lose bytes.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require qemu-io jq
require_python_nbd
cd "$dir"

ends() # STATUS REGEX COMMAND...: with this status, and says that; "": nothing
{
	local wanted=$1 regex=$2 status=0
	shift 2
	"$@" >"$dir/said.log" 2>&1 || status=$?
	expect_equal "status of $*: $(cat "$dir/said.log")" "$wanted" "$status"
	[ -n "$regex" ] || expect_equal "what $* says" "" "$(cat "$dir/said.log")"
	grep -qE -- "$regex" "$dir/said.log" || [ -z "$regex" ] || fail "$* says: $(cat "$dir/said.log")"
}

checks() # STATUS REGEX LAYER [OPTION...]
{
	local status=$1 regex=$2
	shift 2
	ends "$status" "$regex" nbdloop layer check "$@"
}

info() # LAYER JQ-PATH
{
	nbdloop layer info --json "$1" | jq -c "$2"
}

flip() # FILE OFFSET
{
	local byte
	byte=$(od -An -t u1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059 # a byte
	printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

number_at() # FILE OFFSET
{
	od -An -t u8 -j "$2" -N 8 "$1" | tr -d ' '
}

chain()
{
	rm -f ./*.layer ./*.raw
	head -c 1M /dev/urandom >base.raw
	quietly nbdloop clone base.raw one.layer
	start_nbdloopd one.layer
	quietly qemu-io -f raw -c 'write -P 1 0 64k' -c 'write -P 2 512k 4k' "$uri"
	stop_server
	quietly nbdloop clone --seal one.layer
	quietly nbdloop clone one.layer two.layer
	start_nbdloopd two.layer
	# It stays connected: at the end of a connection, all would be flushed.
	spawn client "$python" -uc 'import nbd, sys, time
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"\3" * 8192, 4096)
print("written")
time.sleep(600)' "$uri"
	wait_until "the write" grep -q written client.log
}

# ---- info
chain
expect_equal "names" '["two.layer","one.layer","base.raw"]' "$(info two.layer '[.chain[].name]')"
expect_equal "a layer in use" '["writable",true]' "$(info two.layer '[.chain[0].state, .chain[0]["in-use"]]')"
expect_equal "held" '[8192,69632]' "$(info two.layer '[.chain[0,1].held]')"
checks 1 'is using it; stop it first' two.layer
checks 0 '' one.layer
for action in commit flatten 'rebase --base=one.layer'; do
	# shellcheck disable=SC2086 # words
	ends 1 'is using it; stop it first' nbdloop layer $action two.layer
done
kill_server
end_process client KILL
is_free() { [ "$(info two.layer '.chain[0]["in-use"]')" = false ]; }
wait_until "the killed server's lock is gone" is_free
expect_equal "a killed server's" '["killed",false,8192]' "$(info two.layer '.chain[0] | [.ending, .["in-use"], .unkept]')"
expect_equal "paths" "[\"$dir/two.layer\",\"$dir/one.layer\",\"$dir/base.raw\"]" "$(info two.layer '[.chain[].path]')"
expect_equal "types" '["layer","layer","raw"]' "$(info two.layer '[.chain[].type]')"
expect_equal "bases" '[null,true,true]' "$(info two.layer '[.chain[].matches]')"
nbdloop layer info two.layer >info.log
grep -qx '    holds:     8192 (8k)' info.log || fail "info: $(cat info.log)"
grep -qx "raw: base.raw" info.log || fail "info: $(cat info.log)"

# ---- check: a kill
checks 3 '^to do: two.layer: its server was killed' two.layer
checks 0 '' two.layer --repair
checks 0 '' two.layer
checks 0 '' one.layer
expect_equal "nothing found" '{"findings":[]}' "$(nbdloop layer check --json two.layer | jq -c .)"

# ---- headers: the one that counts is torn, then both
cp two.layer sound.layer
newest=$(($(number_at two.layer 16) > $(number_at two.layer 4112) ? 0 : 4096))
flip two.layer $((newest + 50))
checks 3 'two.layer: one copy of its header is damaged' two.layer
checks 0 '' two.layer --repair
flip two.layer 50
flip two.layer 4146
checks 2 'both headers of the layer are damaged' two.layer
ends 2 'both headers of the layer are damaged' nbdloop layer check --repair two.layer
cp sound.layer two.layer

# ---- maps
other_at=$((8192 + ($(number_at two.layer 72) - 8192) / 2))
flip two.layer $other_at
checks 2 '^damage: two.layer: damaged blocks in its map: 1;' two.layer
ends 2 'damaged' nbdloop layer check --repair two.layer
must_fail nbdloop layer flatten two.layer
cp sound.layer two.layer
truncate -s 1500k two.layer
checks 2 'two.layer: it was cut short' two.layer
cp sound.layer two.layer
checks 0 '' two.layer

# ---- bases
mv base.raw away.raw
cp away.raw other.raw
checks 1 '^not checked: one.layer: its base base.raw does not exist' two.layer
expect_equal "a missing base" '[null]' "$(info two.layer '[.chain[2].path]')"
ends 1 'its base base.raw does not exist.*--force, if you know' nbdloop layer rebase --base=other.raw one.layer
ends 0 '' nbdloop layer rebase --base=away.raw one.layer
checks 0 '' two.layer
mv away.raw base.raw
ends 0 '' nbdloop layer rebase --base=base.raw one.layer
touch base.raw
checks 2 '^damage: one.layer: its base base.raw has changed since the layer was made: it was modified later' two.layer
expect_equal "a changed base" false "$(info two.layer '.chain[2].matches')"
ends 1 'has changed since.*--force, if you know' nbdloop layer rebase --base=base.raw one.layer
ends 0 '' nbdloop layer rebase --force --base=base.raw one.layer
checks 0 '' two.layer
# The base is looked for where the layer really is.
mkdir links
cp -p base.raw links
ln -s ../one.layer links/one.layer
ends 0 '' nbdloop layer rebase --base=links/base.raw links/one.layer
checks 0 '' two.layer
ends 0 '' nbdloop layer rebase --base=base.raw one.layer
rm -r links
# A chain may be moved with its directory; a base elsewhere is looked at only if it is allowed.
mkdir far away
mv base.raw one.layer two.layer far
checks 0 '' far/two.layer
quietly nbdloop clone far/base.raw away/other.layer
checks 1 "^not checked: away/other.layer: its base $dir/far/base.raw is not in the layer's directory; base-path=DIRECTORY" \
	away/other.layer
ends 1 "is not in the layer's directory" nbdloop layer flatten away/other.layer
checks 0 '' --base-path="$dir/far" away/other.layer
ends 0 '' nbdloop layer flatten --base-path="$dir/far" away/other.layer
checks 0 '' away/other.layer
mv far/base.raw far/one.layer far/two.layer .

# ---- what would lose bytes
ends 1 'one.layer: it is sealed' nbdloop layer commit one.layer
ends 1 'its base one.layer is a sealed layer, which never changes' nbdloop layer commit two.layer
ends 1 'a sealed layer takes none' nbdloop layer flatten one.layer
ends 1 "can't be its own base" nbdloop layer rebase --base=two.layer two.layer
ends 1 'two.layer: this layer is still written to' nbdloop layer rebase --base=two.layer one.layer
quietly nbdloop clone base.raw three.layer
ends 1 "three.layer: .*/one.layer stands on its base base.raw, too" nbdloop layer commit three.layer
quietly nbdloop layer rebase --base=base.raw two.layer
rm one.layer sound.layer
ends 1 "three.layer stands on its base base.raw, too" nbdloop layer commit two.layer
start_nbdloopd three.layer
ends 1 'base.raw: process [0-9]* \(nbdloopd\) is using it' nbdloop layer commit --force two.layer
stop_server
ends 0 '' nbdloop layer commit --force two.layer
checks 0 '' two.layer
checks 2 'three.layer: its base base.raw has changed' three.layer
quietly nbdloop clone --size=512k base.raw small.layer
rm three.layer two.layer
ends 1 'small.layer: its disk is smaller than its base base.raw' nbdloop layer commit small.layer
quietly nbdloop layer flatten small.layer
ends 1 'small.layer: it has no base' nbdloop layer commit small.layer
checks 0 '' small.layer

# ---- command lines
wrong() # REGEX COMMAND...
{
	local regex=$1
	shift
	must_fail "$@"
	grep -qE -- "$regex" "$dir/refused.log" || fail "$* says: $(cat "$dir/refused.log")"
}

wrong 'rebase needs --base=FILE' nbdloop layer rebase small.layer
wrong '--base is for rebase' nbdloop layer flatten --base=base.raw small.layer
wrong '--force is for rebase and commit' nbdloop layer flatten --force small.layer
wrong '--repair is for check' nbdloop layer info --repair small.layer
wrong 'there is no action "merge"' nbdloop layer merge small.layer
ends 1 'base.raw: the name of a layer ends in .layer' nbdloop layer info base.raw
ends 1 'No such file' nbdloop layer check none.layer
