#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The dashboard and the alert rules in examples/ are well-formed, and ask only for metrics and
# labels that a running nbdloopd or a backup tells.  Prometheus's own program checks them, too,
# where it is installed.
. "$(dirname "$0")/../../../lib/functions.sh"

require_http
require curl
for module in yaml prometheus_client; do
	"$python" -c "import $module" 2>/dev/null || skip "$python has no module $module"
done
top=$(cd "$lib/../.." && pwd)
truncate -s 8M "$dir/disk.img"
start_nbdloopd --http="unix:$dir/http" --export="disk=$dir/disk.img"
for format in openmetrics-text any; do
	quietly curl -sS --unix-socket "$dir/http" -H "Accept: application/$format" \
		-o "$dir/$format" http://localhost/metrics
done
stop_server
# What a backup tells, even if it fails.
if [ -x "$top_builddir/tool/nbdloop" ]; then
	must_fail nbdloop backup --format=delta --metrics="$dir/backup.prom" "nbd+unix:///?socket=$dir/none" "$dir/chain"
	sed -i '/^# EOF/d' "$dir/openmetrics-text"
	(cat "$dir/backup.prom" && echo '# EOF') >>"$dir/openmetrics-text"
fi

check() # DASHBOARD RULES
{
	"$python" "$own_python" "$dir/openmetrics-text" "$1" "$2" "$dir/expressions.yaml" >"$dir/check.log" 2>&1
}
check "$top/examples/grafana-dashboard.json" "$top/examples/prometheus-alerts.yaml" ||
	fail "$(tail -n 1 "$dir/check.log")"
if command -v promtool >/dev/null; then
	quietly promtool check metrics <"$dir/any"
	quietly promtool check rules "$top/examples/prometheus-alerts.yaml"
	quietly promtool check rules "$dir/expressions.yaml"
fi

# The check finds what it is for.
must_find() # FILE FROM TO REGEX
{
	local dashboard=$top/examples/grafana-dashboard.json rules=$top/examples/prometheus-alerts.yaml
	sed "s/$2/$3/" "$top/examples/$1" >"$dir/$1"
	! cmp -s "$top/examples/$1" "$dir/$1" || fail "nothing is changed in $1: $2"
	case $1 in
	*.json) dashboard=$dir/$1 ;;
	*) rules=$dir/$1 ;;
	esac
	! check "$dashboard" "$rules" || fail "not found: $3"
	grep -qE -- "$4" "$dir/check.log" || fail "not found: $3"
}
must_find grafana-dashboard.json nbdloop_retries_total nbdloop_retry_total 'no metric nbdloop_retry_total'
must_find prometheus-alerts.yaml nbdloop_errors_total nbdloop_errors 'no metric nbdloop_errors'
must_find prometheus-alerts.yaml 'op=~' 'kind=~' 'no label kind'
must_find prometheus-alerts.yaml 'labels.export' 'labels.exports' 'no label exports'
must_find prometheus-alerts.yaml 'severity: info' 'severity: none' severity
