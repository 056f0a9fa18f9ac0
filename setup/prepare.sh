# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What ./quickstart and ./check begin with: installing what is missing and building.  Sourced by
# bash, in the top of the tree.  Quiet when all goes well; a command that fails shows its log.

# Packages that a build needs.
build_packages="autoconf automake gcc libc6-dev libcurl4-openssl-dev libglib2.0-dev libgnutls28-dev libjansson-dev libmicrohttpd-dev libnbd-dev
	libseccomp-dev liburing-dev make nbdkit
	nbdkit-plugin-dev perl pkg-config"

mkdir -p build
log=$PWD/build/prepare.log

die()
{
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# logged WHAT COMMAND [ARGUMENT...]: runs a command, and shows its output only if it fails
logged()
{
	local what=$1
	shift
	if ! "$@" >"$log" 2>&1 </dev/null; then
		tail -n 60 "$log" >&2
		die "$what failed: $* (the whole log is $log)"
	fi
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# Prints those packages that are not installed; without dpkg, all of them.
missing_packages()
{
	local package
	for package; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -x installed >/dev/null || echo "$package"
	done
}

apt_install()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
		-o DPkg::Lock::Timeout=300 "$@"
}

# need_packages PACKAGE...: installs the missing ones of these packages
need_packages()
{
	local missing
	missing=$(missing_packages "$@")
	test -n "$missing" || return 0
	# shellcheck disable=SC2086 # one word per package
	set -- $missing
	if ! command -v apt-get >/dev/null; then
		echo "$(basename "$0"): no apt-get here; going on with what is installed (Debian's names: $*)" >&2
		return 0
	fi
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		die "these packages are missing; install them as root: apt-get install $*"
	fi
	echo "Installing $*"
	# The first attempt fails if there are no package lists, or old ones.
	if ! apt_install "$@" >"$log" 2>&1 </dev/null; then
		as_root apt-get update -q >"$log" 2>&1 </dev/null || true
		logged "installing packages" apt_install "$@"
	fi
}

# want_packages WHAT PACKAGE...: the same, but goes on if they can't be installed
want_packages()
{
	local what=$1
	shift
	if ! command -v apt-get >/dev/null; then
		need_packages "$@"
		return
	fi
	(need_packages "$@") 2>/dev/null ||
		echo "$(basename "$0"): no $what here: its packages cannot be installed: $(missing_packages "$@" | xargs) (the log is $log); the tests that need them are skipped" >&2
}

# build_tree [CONFIGURE-OPTION...]: builds in the tree; keeps the options of an earlier configure
build_tree()
{
	local before=
	echo "Building in $PWD"
	logged "autoreconf" autoreconf_if_needed
	if [ -x config.status ]; then
		before=$(./config.status --config)
	fi
	if [ ! -x config.status ] || ! has_options "$before" "$@"; then
		eval "set -- $before $(printf '%q ' "$@")"
		logged "configure" ./configure -q "$@"
	fi
	logged "make" make -j"$(nproc)"
}

autoreconf_if_needed()
{
	test -x configure || autoreconf -fi
}

# has_options TEXT OPTION...
has_options()
{
	local text=$1 option
	shift
	for option; do
		case " $text " in
		*" $option "* | *" '$option' "*) ;;
		*) return 1 ;;
		esac
	done
}

# If root has built in another user's tree (sudo ./check), that user must still be able to build
# there. The chroots stay root's.
give_back()
{
	local owner
	owner=$(stat -c %u:%g .)
	if [ "$(id -u)" = 0 ] && [ "${owner%%:*}" != 0 ]; then
		find . -path ./build/chroots -prune -o -user 0 -exec chown -h "$owner" {} +
	fi
}
