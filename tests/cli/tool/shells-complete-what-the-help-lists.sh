#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bash, fish and zsh complete what the help of nbdloop and nbdloopd lists: verbs, all options of
# each, their values, devices, and files.  The shells are asked themselves; zsh, which completes
# only what is typed, in a terminal.
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require fish tmux zsh
use_recorded_system
mkdir "$dir/here"
cd "$dir/here"
truncate -s 1M disk.img
mkdir -p directory "$NBDLOOP_SYSROOT/etc"
printf 'nbd4 /srv/disk.img noauto\n' >"$NBDLOOP_SYSROOT/etc/nbdloop.tab"

# Where the completion of a program is before it is installed.
completion_of() # PROGRAM SHELL
{
	local folder=$top_builddir/server/completion
	[ "$1" != nbdloop ] || folder=$top_builddir/tool/completion
	case $2 in
	bash) echo "$folder/$1" ;;
	fish) echo "$folder/$1.fish" ;;
	zsh) echo "$folder/_$1" ;;
	esac
}

# ---- each prints what a shell offers for a line whose last word is not finished, a word per line

ask_bash() # LINE
{
	bash --norc --noprofile -c '
		. "$1"
		exec 9>&2
		compopt() { echo "compopt $*" >&9; }
		# As readline does it with its own word breaks: "--engine=io" is three words, and so
		# is "disk.ctl:web".
		line=$2
		COMP_WORDS=()
		for word in $line; do
			while [[ $word =~ ^([^=:]*)([=:])(.*)$ ]]; do
				[ -z "${BASH_REMATCH[1]}" ] || COMP_WORDS+=("${BASH_REMATCH[1]}")
				COMP_WORDS+=("${BASH_REMATCH[2]}")
				word=${BASH_REMATCH[3]}
			done
			[ -z "$word" ] || COMP_WORDS+=("$word")
		done
		[[ $line != *" " ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		COMPREPLY=()
		"_${COMP_WORDS[0]}"
		printf "%s\n" "${COMPREPLY[@]}"' - "$(completion_of "${1%% *}" bash)" "$1"
}

ask_fish() # LINE
{
	HOME=$dir fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$(completion_of "${1%% *}" fish)" "$1" |
		sed -e 's/\t.*//' -e 's/^--[a-z-]*=\(.\)/\1/' -e 's/^[a-z]*=\(.\)/\1/' -e 's/^disk\.ctl:\(.\)/\1/'
}

export TERM=xterm
unset TMUX
mux()
{
	tmux -S "$dir/tmux" -f /dev/null "$@"
}
on_exit mux kill-server
mkdir "$dir/functions"
cp "$(completion_of nbdloop zsh)" "$(completion_of nbdloopd zsh)" "$dir/functions"
# What zsh is about to list goes to a file: compadd, which all completions end in, tells it.
cat >"$dir/zshrc" <<EOF2
fpath=($dir/functions \$fpath)
autoload -Uz compinit
compinit -u -D
compadd()
{
	local -a asked hits
	asked=("\${(@)@[1,(i)--]}")
	if [[ \${asked[(r)-[OAD]*]} == '' ]]; then
		builtin compadd -A hits "\$@"
		print -l -- \$hits >>$dir/offered
	fi
	builtin compadd "\$@"
}
told()
{
	: >$dir/offered
	zle list-choices
	: >$dir/done
}
zle -N told
bindkey '^X' told
: >$dir/done
EOF2
mux new-session -d -x 160 -y 50 "env HOME=$dir zsh -f -i" 2>"$dir/mux.log" || fail "tmux does not start: $(cat "$dir/mux.log")"
mux send-keys "source $dir/zshrc" Enter
wait_until "zsh is ready" test -e "$dir/done"

ask_zsh() # LINE
{
	rm -f "$dir/done"
	mux send-keys C-u \; send-keys -l "$1" \; send-keys C-x
	wait_until "zsh completes: $1" test -e "$dir/done"
	cat "$dir/offered"
}

# The words of standard input, sorted, on one line; without the slash of a directory, and the equals
# sign of an option that takes a value. (Of what is done here hundreds of times, bash starts no
# program but sort.)
words()
{
	local found word sorted
	read -r -d '' -a found || true
	for word in "${!found[@]}"; do
		[[ ! ${found[word]} =~ ^[A-Z]*, ]] || found[word]=${found[word]#*,}
		found[word]=${found[word]%[=/]}
	done
	mapfile -t sorted < <(printf '%s\n' "${found[@]}" | sort -u)
	echo "${sorted[*]}"
}

offers() # LINE WANTED
{
	local shell wanted
	wanted=$(words <<<"$2")
	for shell in bash fish zsh; do
		"ask_$shell" "$1" >"$dir/raw" 2>"$dir/$shell.log" || true
		expect_equal "what $shell completes: $1" "$wanted" "$(words <"$dir/raw")"
	done
}

options_of() # PROGRAM [VERB]
{
	"$@" --help | sed -n 's/^    \(-[A-Za-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

verbs=$(nbdloop --help | sed -n 's/^    \([a-z][a-z-]*\) .*/\1/p')
offers "nbdloop " "$verbs --help --version"
offers "nbdloop li" list
for verb in $verbs; do
	offers "nbdloop $verb --" "$(options_of nbdloop "$verb")"
done
offers "nbdloopd --" "$(options_of nbdloopd)"
[ "$(options_of nbdloopd | wc -l)" -gt 50 ] || fail "the help of nbdloopd lists few options"

offers "nbdloop attach --engine=" "auto io_uring aio threads"
offers "nbdloop attach --engine=io" io_uring
offers "nbdloop set --direct-io=" "on off"
offers "nbdloop backup --format r" raw
offers "nbdloop top --sort=read" "read-iops read-bandwidth"
offers "nbdloop list --output=NAME,BACK-M" "BACK-MAJ BACK-MAJ:MIN BACK-MIN"
offers "nbdloop status /dev/nbd" "/dev/nbd0 /dev/nbd1 /dev/nbd10"
offers "nbdloop start /dev/" /dev/nbd4
offers "nbdloop attach dis" disk.img
truncate -s 1M "$dir/db.img"
start_nbdloopd --control "$dir/here/disk.ctl" --export=web="$dir/here/disk.img" --export=db="$dir/db.img"
mkdir -p "$NBDLOOP_SYSROOT/run/nbdloopd"
ln -s "$dir/here/disk.ctl" "$NBDLOOP_SYSROOT/run/nbdloopd/control.sock"
offers "nbdloop export re" "reload remove resize"
offers "nbdloop export set we" web
offers "nbdloop export remove disk.ctl:" "web db"
offers "nbdloop export remove disk.ctl:w" web
offers "nbdloop export list --output=SI" SIZE
offers "nbdloop snapshot disk.ctl:w" web
for verb in check resize set status; do
	offers "nbdloop $verb disk.ctl:w" web
done
offers "nbdloop backup we" web
offers "nbdloop backup me" merge
stop_server
offers "nbdloop keys ps" psk
offers "nbdloop layer co" commit
offers "nbdloop layer info dis" disk.img
offers "nbdloop clone dis" disk.img
offers "nbdloop list --offset " ""
offers "nbdloopd --engine " "auto io_uring aio threads"
offers "nbdloopd --tls=" "off allow require auto"
offers "nbdloopd --discard=o" "on off"
offers "nbdloopd --config d" "disk.img directory"
offers "nbdloopd --export=name=di" "disk.img directory"
offers "nbdloopd --tls-certificates=d" directory
offers "nbdloopd --memory=" ""
offers "nbdloopd -r dis" disk.img

# Bash escapes blanks, and adds a slash to a directory, only if it knows that they are names of
# files; and what is no option gets no error.
for line in "attach dis:compopt -o filenames" "attach direc:compopt -o filenames" "attach --engine=io:" \
	"list -/ :compopt -o filenames" "list --a/b :compopt -o filenames"; do
	ask_bash "nbdloop ${line%%:*}" >"$dir/raw" 2>"$dir/bash.log" || true
	expect_equal "what bash says about: nbdloop ${line%%:*}" "${line#*:}" "$(cat "$dir/bash.log")"
done
