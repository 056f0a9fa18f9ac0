#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of an attached device is killed 20 times while fio writes and verifies in a file system
# on it: there is no error, no write is lost, and each time another server takes over. A request
# that was in flight is repeated within seconds; with several connections, if --timeout says so.
. "$(dirname "$0")/functions.sh"
. "$(dirname "$0")/nbdloop.sh"
. "$(dirname "$0")/killed_servers.sh"

survives 20

truncate -s 64M "$image"
nbdloop_attach "$image"
pid=$(server_pid "$device")
expect_request_soon_repeated "$pid" kill -KILL "$pid"
nbdloop_detach "$device"

nbdloop_attach --connections=4 --timeout=5 "$image"
pid=$(server_pid "$device")
expect_request_soon_repeated "$pid" kill -KILL "$pid"
nbdloop_detach "$device"
expect_nothing_left
