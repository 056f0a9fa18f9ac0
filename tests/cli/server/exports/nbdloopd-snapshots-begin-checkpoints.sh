#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Snapshots of all exports with a checkpoint are one moment, while clients write: no write is
# between snapshot and checkpoint, or between two exports; and what a snapshot's checkpoints say
# stays.
. "$(dirname "$0")/../../../lib/functions.sh"

require_python_nbd

truncate -s 24M "$dir/one.img" "$dir/two.img"
start_nbdloopd --control "$dir/control" --threads=2 --direct-io=off --export "one=$dir/one.img" --export "two=$dir/two.img"
quietly "$python" "$own_python" "$sock" "$dir/control"
stop_server
