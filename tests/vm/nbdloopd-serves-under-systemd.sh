#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: boots 2
# vm: kernel systemd.log_target=kmsg systemd.default_standard_output=null systemd.default_standard_error=tty systemd.show_status=no
# vm: limit 400
# nbdloopd can do everything within the installed units, their sandbox, its own sandbox, and
# AppArmor's profile. It serves clients of the socket, keeps checkpoints and snapshots, follows its
# configuration, encrypts, and passes tests of the protocol. It cannot touch what its unit does not
# give it, and a denial by the profile is explained.
#
# When one of its event loops hangs, systemd starts it again. It ends with the machine; flushed
# data, and its checkpoints, are there after that.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/systemd.sh"

require_python_nbd
[ -x /sbin/apparmor_parser ] || skip "apparmor_parser is not installed"
images=/srv/images
units=$top_builddir/server/systemd
sbindir=$(sed -n 's|^ExecStart=\(.*\)/nbdloopd .*|\1|p' "$units/nbdloopd.service")
# By hand, more of them: see tests/vm/README.md.
read -ra suites <<<"${NBDLOOP_SUITES:-errors}"
row="nbdloopd, io_uring, direct I/O"

# ---- before systemd

write_configurations()
{
	mkdir -p /etc/nbdloopd
	cat >/etc/nbdloopd.conf <<-EOT
		[server]
		unix = /run/nbdloopd/nbd.sock
		[export disk]
		file = $images/disk.img
		allow-write = user:root
	EOT
	echo "alice:$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >/etc/nbdloopd/keys.psk
	cat >/etc/nbdloopd/secret.conf <<-EOT
		[server]
		address = 127.0.0.1
		port = 10810
		tls-psk = /etc/nbdloopd/keys.psk
		threads = 2
		[export secret]
		file = /var/lib/nbdloopd/secret.img
	EOT
	chown nbdloopd: /etc/nbdloopd/keys.psk
	chmod 600 /etc/nbdloopd/keys.psk
}

# As the manual says. There is no journal for the server's messages.
write_drop_ins()
{
	local etc=/etc/systemd/system
	mkdir -p $etc/nbdloopd.service.d $etc/nbdloopd@.service.d
	printf '[Service]\nReadWritePaths=%s\nStandardError=append:%s\n' $images $images/server.log \
		>$etc/nbdloopd.service.d/images.conf
	printf '[Service]\nWatchdogSec=12\nStandardError=append:%s\n' $images/secret.log \
		>$etc/nbdloopd@.service.d/watchdog.conf
}

# Tests of the protocol, as a service with the settings of the unit. Only the program differs: so
# there is no profile, because under the profile nothing else can be started.
write_suite()
{
	local etc=/etc/systemd/system suite
	mkdir $images/suite $etc/suite.service.d
	sed -E '/^(Type|AppArmorProfile|Exec[A-Za-z]*|WatchdogSec|Restart[A-Za-z]*|RuntimeDirectory)=/d' \
		"$units/nbdloopd.service" >$etc/suite.service
	cat >$etc/suite.service.d/suite.conf <<-EOT
		[Service]
		Type=oneshot
		ReadWritePaths=$images
		SystemCallFilter=mincore
		Environment=TMPDIR=$images/suite "PATH=$PATH" "top_builddir=$top_builddir" "LOOP_PLUGIN=$plugin"
		Environment=LOOP_PART=8 "CK_RUN_CASE=$row"
		Environment=CK_TIMEOUT_MULTIPLIER=$NBDLOOP_TIME_FACTOR NBDLOOP_TIME_FACTOR=$NBDLOOP_TIME_FACTOR
		StandardOutput=append:$images/suite.log
		StandardError=append:$images/suite.log
	EOT
	for suite in "${suites[@]}"; do
		echo "ExecStart=$top_builddir/tests/nbd/check_$suite" >>$etc/suite.service.d/suite.conf
	done
}

install_nbdloopd()
{
	local directory
	directory=$(sed -n 's/^SYSTEMD_UNIT_DIR = //p' "$top_builddir/server/Makefile")
	[ -d "$directory" ] || skip "nbdloop was built without systemd's directories"
	mkdir -p "$sbindir"
	# Not a link: the user of the unit may not be able to reach the tree.
	cp "$top_builddir/server/nbdloopd" "$sbindir/"
	cp "$units"/nbdloopd{,@}.service "$VM_SOURCE/../../server/systemd/nbdloopd.socket" "$directory/"
	quietly systemd-sysusers "$VM_SOURCE/../../server/systemd/nbdloopd.sysusers"
}

make_images()
{
	mkdir -p /run/disk/kept $images /var/lib/nbdloopd
	# Where a service may write only by ReadWritePaths=.
	mount --bind /run/disk/kept $images
	truncate -s 16M $images/disk.img $images/more.img $images/third.img /var/lib/nbdloopd/secret.img /srv/elsewhere.img
	chown -R nbdloopd: $images /var/lib/nbdloopd /srv/elsewhere.img
	chmod 750 /var/lib/nbdloopd
}

# ---- under systemd

ask() # PYTHON-STEP [ARGUMENT...]
{
	local step=$1
	"$python" "$own_python" "$@" >"$dir/$step.log" 2>&1 || fail "the client's part \"$step\" fails"
}

restarts() # UNIT
{
	systemctl show --property=NRestarts --value "$1"
}

has_restarted() # UNIT
{
	[ "$(restarts "$1")" -gt 0 ] && is_in_state "$1" active
}

load_profile()
{
	cp "$VM_SOURCE/../../server/systemd/nbdloopd.apparmor" /etc/apparmor.d/nbdloopd
	quietly apparmor_parser --replace --skip-cache /etc/apparmor.d/nbdloopd
	grep -x 'nbdloopd (enforce)' /sys/kernel/security/apparmor/profiles || fail "the profile is not enforced"
}

expect_profile() # UNIT
{
	expect_equal "AppArmor's profile of $1" "nbdloopd (enforce)" \
		"$(cat "/proc/$(systemctl show --property=MainPID --value "$1")/attr/current")"
}

# Root may read it, and the server's own sandbox begins later.
expect_denial()
{
	local status=0
	aa-exec -p nbdloopd -- "$sbindir/nbdloopd" --unix /run/nbdloopd/shadow.sock /etc/shadow >"$dir/denied.log" 2>&1 || status=$?
	expect_equal "status with an image that the profile doesn't have" 1 "$status"
	grep -F "/etc/shadow: Permission denied; AppArmor's profile nbdloopd may forbid it" "$dir/denied.log" |
		grep -F "/etc/apparmor.d/local/nbdloopd can allow more" || fail "the denial is not explained"
}

# Without a client of the socket, the service does not run.
serve_by_socket()
{
	quietly systemctl start nbdloopd.socket
	expect_active nbdloopd.service inactive
	ask serve
	expect_active nbdloopd.service active
	expect_equal "what systemctl shows" "serving 3 exports" \
		"$(systemctl show --property=StatusText --value nbdloopd.service | sed 's/ on .*//')"
}

# The unit's own sandbox leaves nbdloopd what it needs for its one.
expect_sandbox() # LOG [REGEX]
{
	local profile=", apparmor nbdloopd \(enforce\)" filters
	filters="$profile; no seccomp: this nbdloopd was built without libseccomp"
	! grep -q '^SECCOMP_LIBS = .' "$top_builddir/server/Makefile" || filters=", seccomp$profile$"
	grep -E "sandbox: no new privileges, no capabilities .*${2-}, landlock [1-9][0-9]*, ring restrictions$filters" \
		"$1" || fail "a part of the sandbox is missing: $(grep 'sandbox: ' "$1")"
	! grep 'not confined' "$1" || fail "a thread is not confined"
}

shows_exports()
{
	grep -qx 'serving [0-9]* exports on .*' <(systemctl show --property=StatusText --value nbdloopd.service)
}

# `systemctl reload' returns when the new export is there.  Editors replace the file.
follow_configuration()
{
	{
		cat /etc/nbdloopd.conf
		printf '[export third]\nfile = %s\n' $images/third.img
	} >/etc/nbdloopd.conf.new
	mv /etc/nbdloopd.conf.new /etc/nbdloopd.conf
	quietly systemctl reload nbdloopd.service
	ask reloaded
	# A broken one fails, and the server goes on; systemctl shows why, until it is mended.
	echo 'portt = 1' >>/etc/nbdloopd.conf
	must_fail systemctl reload nbdloopd.service
	expect_active nbdloopd.service active
	systemctl show --property=StatusText --value nbdloopd.service >"$dir/status.log"
	grep -x 'serving with the old configuration, because the new one is wrong: .*portt.*' "$dir/status.log" ||
		fail "after a reload that failed, systemctl shows: $(cat "$dir/status.log")"
	sed -i '$d' /etc/nbdloopd.conf
	quietly systemctl reload nbdloopd.service
	wait_until "systemctl shows no mistake any more" shows_exports
}

start_hang()
{
	quietly systemctl start nbdloopd@secret.service
	ask encrypt
	expect_profile nbdloopd@secret.service
	# Its keys are read again, in the sandbox.
	quietly systemctl reload nbdloopd@secret.service
	grep -q 'configuration was read again' $images/secret.log || fail "the instance reads no configuration again"
	ask hang "$(systemctl show --property=MainPID --value nbdloopd@secret.service)" &
	hung=$!
}

expect_restart()
{
	wait_until "systemd starts the server again" has_restarted nbdloopd@secret.service
	grep -qE 'event loop [12] hangs: no sign of life' $images/secret.log || fail "the loop that hung is not named"
	wait $hung || fail "no loop was stopped"
	ask decrypt
}

run_suites()
{
	if ! runuser -u nbdloopd -- test -x "$top_builddir/tests/nbd/check_errors"; then
		echo "no test of the protocol: nbdloopd's user can't reach $top_builddir"
		return
	fi
	chown nbdloopd: $images/suite
	systemctl start suite.service || fail "a test of the protocol fails in the sandbox"
	! grep -F "SKIP: $row:" $images/suite.log || fail "tests of the protocol are skipped in the sandbox"
	expect_equal "suites of the protocol's tests that pass" ${#suites[@]} \
		"$(grep -cE '^100%: Checks: [1-9][0-9]*, Failures: 0, Errors: 0$' $images/suite.log)"
}

stop_and_start()
{
	expect_equal "restarts by systemd" 0 "$(restarts nbdloopd.service)"
	quietly systemctl restart nbdloopd.service
	ask again
	quietly systemctl stop nbdloopd@secret.service
	[ ! -e /run/nbdloopd-secret ] || fail "something is left in /run"
}

case $VM_BOOT-$VM_STAGE in
1-)
	install_nbdloopd
	make_images
	write_configurations
	write_drop_ins
	write_suite
	become_systemd
	;;
1-systemd)
	ln -s $images/{server,secret,suite}.log "$dir/" # to be shown if it fails
	load_profile
	serve_by_socket
	expect_profile nbdloopd.service
	expect_denial
	expect_sandbox $images/server.log
	follow_configuration
	start_hang
	expect_sandbox $images/secret.log ", no core dumps"
	run_suites
	expect_restart
	stop_and_start
	! dmesg | grep -E 'nbdloopd.*(Failed|Unknown|ignoring|status=)' | grep -v -e secret -e 'Control process exited, code=exited, status=2' >"$dir/systemd.log" || fail "systemd complains"
	expect_reboot
	;;
*)
	ask kept
	;;
esac
