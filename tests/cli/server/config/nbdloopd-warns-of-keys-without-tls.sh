#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# With --tls=off, nothing is encrypted, although keys or certificates are given: nbdloopd says so.
. "$(dirname "$0")/../../../lib/functions.sh"

image=$dir/disk.img
truncate -s 1M "$image"

start_nbdloopd --tls=off --tls-psk="$dir/keys.psk" "$image"
expect_log 'warning: tls=off: nothing is encrypted, and tls-psk=FILE is not used'
stop_server
start_nbdloopd --tls=off --tls-certificates="$dir" "$image"
expect_log 'warning: tls=off: nothing is encrypted, and tls-certificates=DIR is not used'
stop_server
start_nbdloopd --tls=off "$image"
reject_log 'tls=off'
