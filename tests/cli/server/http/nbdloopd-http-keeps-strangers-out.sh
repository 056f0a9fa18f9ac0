#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Without a token, HTTP is only for this machine: no other can connect, and a page from elsewhere
# reads nothing through a browser here. With a token, only those who know it see the figures.
. "$(dirname "$0")/../../../lib/functions.sh"

require_http
image=$dir/disk.img
truncate -s 1M "$image"
(umask 077 && echo 0123456789abcdef-token >"$dir/token")
echo short >"$dir/short"

refuses() # REGEX OPTION...
{
	refuse_nbdloopd "${status:-1}" -U "$dir/unused.sock" "${@:2}" "$image"
	expect_log "$1"
	reject_log 'listening|page and metrics'
}

status=2 refuses '--http=0.0.0.0:0: other machines can reach 0\.0\.0\.0:.*--http-token=FILE' --http=0.0.0.0:0
status=2 refuses 'http=nonsense: must be ADDRESS:PORT' --http=nonsense
status=2 refuses 'must be ADDRESS:PORT' --http=localhost:65536
status=2 refuses 'must be ADDRESS:PORT' --http=localhost:
status=2 refuses 'must be ADDRESS:PORT' --http=:9140
status=2 refuses 'must be ADDRESS:PORT' --http=::1:9140
status=2 refuses 'must be ADDRESS:PORT' --http=unix:
refuses 'nowhere/http.*No such file' --http="unix:$dir/nowhere/http"
refuses 'token: No such file' --http=127.0.0.1:0 --http-token="$dir/nowhere/token"
refuses 'one line of 16 to 512' --http=127.0.0.1:0 --http-token="$dir/short"
status=2 refuses 'http-token=FILE is only for' --http-token="$dir/token"

# Reads lines "CODE PATH[|HEADER...]": the status code that such a request must get.
expect_codes()
{
	"$python" - "$address" "$(cat)" >"$dir/codes.log" 2>&1 <<'EOF' || fail "$(tail -n 1 "$dir/codes.log")"
import sys
from http_unix import ask
for line in sys.argv[2].splitlines():
    code, _, request = line.partition(" ")
    path, *headers = request.split("|")
    answer, _ = ask(sys.argv[1], path, headers=dict(header.split(": ", 1) for header in headers))
    assert str(answer.status) == code, (line, answer.status)
EOF
}

start_http() # OPTION...
{
	start_nbdloopd "$@" "$image"
	address=$(sed -n 's,.*page and metrics on http://\(.*\)/$,\1,p' "$log")
	[ -n "$address" ] || fail "the log does not tell the address"
}

start_http --http=127.0.0.1:0
expect_codes <<'EOF'
200 /metrics
200 /metrics|Host: localhost:1
421 /metrics|Host: evil.example
421 /|Host: evil.example
EOF
# Its port is taken.
refuses "cannot listen on $address: .*choose another port, with --http" --lock=off --http="$address"
stop_server

start_http --http=0.0.0.0:0 --http-token="$dir/token"
address=127.0.0.1:${address##*:}
expect_codes <<'EOF'
200 /
401 /metrics
401 /metrics|Authorization: Bearer 0123456789abcdef-tokem
200 /metrics|Authorization: Bearer 0123456789abcdef-token|Host: disks.example
401 /status.json
401 /status.json|Authorization: Bearer
200 /status.json|Authorization: Bearer 0123456789abcdef-token
EOF
reject_log '0123456789abcdef'
stop_server
