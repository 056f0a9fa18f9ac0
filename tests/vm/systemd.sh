# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A real systemd as the first process of the guest; to be read after functions.sh.  A claim prepares
# files in its first stage, calls become_systemd and ends; systemd runs it again when it has booted,
# with VM_STAGE=systemd.  /etc and all else is in memory: only what is in /run/disk is there after a
# boot.
#
# With these kernel arguments, which belong into the claim, what systemd says is in the kernel's
# log, and its services' errors are on the console:
#
#	# vm: kernel systemd.log_target=kmsg systemd.default_standard_output=null systemd.default_standard_error=tty

for program in /lib/systemd/systemd /lib/systemd/systemd-udevd; do
	[ -x "$program" ] || skip "$program is not installed"
done

# Installs the same files as `make install', which takes a minute here.
install_nbdloop()
{
	local sbindir units generators
	sbindir=$(sed -n 's|^ExecStart=\(.*\)/nbdloop .*|\1|p' "$top_builddir/tool/nbdloop@.service")
	units=$(sed -n 's/^SYSTEMD_UNIT_DIR = //p' "$top_builddir/tool/Makefile")
	generators=$(sed -n 's/^SYSTEMD_GENERATOR_DIR = //p' "$top_builddir/tool/Makefile")
	[ -n "$sbindir" ] || fail "the unit doesn't tell where nbdloop is installed"
	if [ ! -d "$units" ] || [ ! -d "$generators" ]; then
		skip "nbdloop was built without systemd's directories"
	fi
	mkdir -p "$sbindir"
	ln -sf "$top_builddir/tool/nbdloop" "$top_builddir/server/nbdloopd" "$sbindir/"
	cp "$top_builddir/tool/nbdloop@.service" "$units/"
	cp "$top_builddir/tool/nbdloop-generator" "$generators/"
}

# Boots into the claim, with file systems and swap space of /etc/fstab, and with udev as the only
# other slow part.
become_systemd()
{
	local etc=/etc/systemd/system link unit
	for link in /{lib,etc}/systemd/system/{sysinit,basic,local-fs,remote-fs,sockets,timers,paths}.target.wants/*; do
		unit=${link##*/}
		case $unit in
		systemd-udevd*) ;;
		*) ln -sf /dev/null "$etc/$unit" ;;
		esac
	done
	# The guest is no container, though this machine may be one.
	rm -f /.dockerenv
	# Without this it would be a first boot, which takes time.
	echo 0123456789abcdef0123456789abcdef >/etc/machine-id
	cat >"$etc/claim.service" <<-EOS
		[Unit]
		After=remote-fs.target
		Wants=remote-fs.target
		SuccessAction=reboot
		[Service]
		ExecStart=/bin/bash $VM_SOURCE/guest systemd
	EOS
	cat >"$etc/claim.target" <<-EOS
		[Unit]
		Requires=basic.target claim.service
		After=basic.target claim.service
	EOS
	ln -sf claim.target "$etc/default.target"
	echo /lib/systemd/systemd >/run/next-init
}

# Ends a successful stage of a claim: the machine then shuts down as an administrator would do it,
# and the rest of the claim belongs to the next boot.
expect_reboot()
{
	: >/run/vm/power-cut
}

expect_active() # UNIT STATE
{
	local state
	state=$(systemctl is-active "$1" || true)
	expect_equal "state of $1" "$2" "$state"
}

is_in_state() # UNIT STATE
{
	[ "$(systemctl is-active "$1")" = "$2" ]
}
