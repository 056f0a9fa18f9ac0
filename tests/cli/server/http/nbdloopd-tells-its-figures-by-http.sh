#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The page, the status and the metrics tell by HTTP what the control socket tells, whatever the
# names of exports are, and nothing can be changed that way.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd
require_http
"$python" -c 'import prometheus_client' 2>/dev/null ||
	skip "$python has no client of Prometheus (package python3-prometheus-client)"
socket=$dir/control
hostile=$'<script>alert("1")</script>\\n{a="b"} 1 # EOF \xe2\x80\xae'

# Paths need not be UTF-8.
other=$dir/$'other"\xff.img'
truncate -s 8M "$dir/disk.img" "$other"
# Only in a file may a name hold an equals sign.
printf '[server]\nhttp = unix:%s\n[export disk]\nfile = %s\niops-limit = read:1000,write:50,burst:1\nbandwidth-limit = 64M\nclient-iops-limit = 3000\n[export %s]\nfile = %s\nread-only = on\n' \
	"$dir/http" "$dir/disk.img" "$hostile" "$other" >"$dir/nbdloopd.conf"
start_nbdloopd --control "$socket" --threads=2 --config "$dir/nbdloopd.conf"
expect_log "page and metrics by HTTP on the unix socket $dir/http"
"$python" "$own_python" "$dir/http" "$sock" "$socket" "$hostile" >"$dir/check.log" 2>&1 ||
	fail "wrong figures: $(tail -n 3 "$dir/check.log")"
stop_server
[ ! -e "$dir/http" ] || fail "the server left its socket behind"
