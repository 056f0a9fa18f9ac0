#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdloopd starts with each configuration in examples/, and does what its comments promise; their
# commands work.  (That of an image in Ceph: engine/images-in-ceph-are-served.sh.)
. "$(dirname "$0")/../../lib/functions.sh"

require_nbdloop
require nbdinfo qemu-io
grep -q '^#define HAVE_GNUTLS' "$top_builddir/config.h" || skip "nbdloopd is built without GnuTLS"
require_python_nbd
top=$(cd "$lib/../.." && pwd)
mkdir -p "$dir/srv/images" "$dir/srv/backup" "$dir/run"
truncate -s 64M "$dir/srv/images/disk.img" "$dir/srv/images/web.img"
truncate -s 8M "$dir/srv/images/installer.iso"
port=$(free_port)
http_port=$(free_port)

# A copy of an example in which all paths and ports are the test's.
here() # TEXT-FILE
{
	sed -e "s|/srv/|$dir/srv/|g" -e "s|/run/nbdloopd/|$dir/run/|g" -e "s|^port = .*|port = $port|" \
		-e "s|127.0.0.1:9182|127.0.0.1:$http_port|" -e 's|SERVER-NAME|localhost|g' \
		-e "s|uid:0\$|uid:$(id -u)|" "$1"
}
served()
{
	[ -s "$dir/ready" ]
}
start_example() # NAME
{
	here "$top/examples/$1" >"$dir/$1"
	has_http || sed -i '/^http = /d' "$dir/$1"
	rm -f "$dir/ready"
	spawn "$1" nbdloopd --config "$dir/$1" --pid-file "$dir/ready"
	wait_until "the server of $1 is ready" served
}
# The commands in the comments of an example: what stands behind a tab.
commands_of() # NAME [REGEX]
{
	here "$top/examples/$1" | sed -n 's/^#\t//p' | grep -E -- "${2:-.}"
}
run_commands() # NAME REGEX
{
	commands_of "$@" >"$dir/commands" || fail "$1 has no command $2"
	# shellcheck disable=SC2094 # the log is another file
	(cd "$dir" && quietly bash -eux "$dir/commands")
}

for file in "$top"/examples/*.conf; do
	case ${file##*/} in
	one-disk.conf | tls-export.conf | backup.conf | nightly-backup.conf | ceph.conf) ;;
	*) fail "nothing tests $file" ;;
	esac
done

# ---- one disk
start_example one-disk.conf
expect_equal "size of the disk" $((64 << 20)) "$(nbdinfo --size "nbd+unix:///disk?socket=$dir/run/nbd.sock")"
nbdloop top --json -n 1 -d 0.1 "$dir/run/control.sock" >"$dir/top" || fail "nbdloop top fails"
grep -q '"name":"[0-9]*:disk"' "$dir/top" || fail "nbdloop top does not show the disk"
if has_http; then
	quietly curl -sSf -o "$dir/metrics" "http://127.0.0.1:$http_port/metrics"
	grep -q '^nbdloop_connections{export="disk"} ' "$dir/metrics" || fail "no metrics"
fi
end_process one-disk.conf TERM

# ---- for other machines, over TLS
run_commands tls-export.conf '^nbdloop keys '
quietly nbdloop keys certificates --client=other "$dir/srv/tls"
start_example tls-export.conf
size_for() # CLIENT EXPORT
{
	"$python" -c 'import nbd, sys
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_certificates(sys.argv[1])
h.set_uri_allow_local_file(True)
h.connect_uri(sys.argv[2])
print(h.get_size(), h.is_read_only())' "$dir/srv/tls/$1" "nbds://localhost:$port/$2"
}
expect_equal "its own export" "$((64 << 20)) False" "$(size_for web web 2>&1)"
expect_equal "an export for all" "$((8 << 20)) True" "$(size_for other installer 2>&1)"
! size_for other web >"$dir/refused.log" 2>&1 || fail "a client without a rule may use the disk"
grep -q 'nbd.Error' "$dir/refused.log" || fail "the client fails in another way: $(tail -n 1 "$dir/refused.log")"
must_fail nbdinfo --size "nbd://localhost:$port/web"
must_fail nbdinfo --size "nbd://localhost:$port/installer"
end_process tls-export.conf TERM

# ---- backups
start_example backup.conf
writes() # PATTERN OFFSET
{
	quietly qemu-io -f raw -c "write -P $1 $2 64k" "nbd+unix:///disk?socket=$dir/run/nbd.sock"
}
writes 1 1M
run_commands backup.conf '^nbdloop backup --format=delta /'
writes 2 2M
run_commands backup.conf '^nbdloop backup .* --incremental '
expect_equal "files of the backup" 2 "$(find "$dir/srv/backup/disk" -name '*.delta' | wc -l)"
run_commands backup.conf '^nbdloop restore '
cmp "$dir/disk.img" "$dir/srv/images/disk.img" || fail "the restored image differs"
[ -e "$dir/srv/images/disk.changes" ] || fail "nothing notes what has changed"

# ---- a backup every night: what the service does
mkdir "$dir/prometheus"
here "$top/examples/nightly-backup.conf" | sed "s|/var/lib/prometheus/node-exporter|$dir/prometheus|" >"$dir/vm1.conf"
mapfile -t settings < <(grep -v '^#' "$dir/vm1.conf" | grep =)
service_command=$(sed -n 's|^ExecStart=@sbindir@/||p' "$top/tool/nbdloop-backup@.service.in")
for night in 1 2 3; do
	writes $night ${night}M
	quietly env "${settings[@]}" bash -c "$service_command"
done
expect_equal "backups that are kept" 1 "$(nbdloop backup list "$dir/srv/backup/vm1" | awk 'NR > 1' | wc -l)"
quietly nbdloop restore "$dir/srv/backup/vm1" "$dir/vm1.img"
cmp "$dir/vm1.img" "$dir/srv/images/disk.img" || fail "the restored image of the night differs"
grep -q '^nbdloop_backup_last_run_failed{.*} 0$' "$dir/prometheus/nbdloop-vm1.prom" || fail "no metrics of the night"
end_process backup.conf TERM
if command -v systemd-analyze >/dev/null; then
	mkdir "$dir/units"
	cp "$top/tool/nbdloop-backup@.timer" "$dir/units/nbdloop-backup@vm1.timer"
	sed "s|@sbindir@/nbdloop|$(command -v env)|" "$top/tool/nbdloop-backup@.service.in" >"$dir/units/nbdloop-backup@vm1.service"
	SYSTEMD_UNIT_PATH=$dir/units: systemd-analyze verify --man=no --recursive-errors=no "$dir/units"/* >"$dir/verify.log" 2>&1 ||
		fail "a unit is wrong: $(cat "$dir/verify.log")"
	! grep nbdloop "$dir/verify.log" >/dev/null || fail "systemd complains: $(cat "$dir/verify.log")"
fi
